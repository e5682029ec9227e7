// Floating-point functions that CUDA has beside those of C, and clock().
#pragma once

#include <math.h>
#include <time.h>

#include "numerics.h"

inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float fdividef(float a, float b) { return a / b; }
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(1ull * static_cast<unsigned>(high) << 32 | static_cast<unsigned>(low)));
}
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }

// Multiples of pi: exact at whole and half ones, as CUDA's are.
inline double sinpi(double x) {
    double rest = fmod(x, 2.0);
    if (rest == 0.0 || fabs(rest) == 1.0) return copysign(0.0, x);
    return sin(rest * 3.141592653589793);
}
inline double cospi(double x) {
    double rest = fmod(fabs(x), 2.0);
    if (rest == 0.5 || rest == 1.5) return 0.0;
    return cos(rest * 3.141592653589793);
}
inline float sinpif(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
inline float cospif(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }
inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }

inline double normcdf(double x) { return 0.5 * erfc(-x * 0.7071067811865476); }
inline float normcdff(float x) { return static_cast<float>(normcdf(static_cast<double>(x))); }
inline float norm3df(float a, float b, float c) { return static_cast<float>(sqrt(1.0 * a * a + 1.0 * b * b + 1.0 * c * c)); }
inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
inline float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
inline double rhypot(double a, double b) { return 1.0 / hypot(a, b); }

// Macros, because the C library has functions of these names, of its own or where it is asked for them.
#define __log10f(x) log10f(x)
#define __tanf(x) tanf(x)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)
#define exp10f(x) powf(10.0f, x)
#define exp10(x) pow(10.0, x)
#define clock() static_cast<clock_t>(clock64())
