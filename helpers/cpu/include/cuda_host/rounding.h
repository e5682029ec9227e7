// Arithmetic and conversions that name their rounding: rn to nearest even, rz to zero, ru up, rd down.
#pragma once

#include <fenv.h>
#include <limits.h>
#include <math.h>

#include <limits>
#include <type_traits>

#include "numerics.h"

namespace cuda_host {

// Volatile values keep the operation between the two changes of the processor's rounding.
template <class T, class Operation>
T rounded(int direction, Operation operation, T a, T b = 0, T c = 0) {
    volatile T x = a, y = b, z = c;
    if (direction != FE_TONEAREST) fesetround(direction);
    volatile T result = operation(x, y, z);
    if (direction != FE_TONEAREST) fesetround(FE_TONEAREST);
    return result;
}

// The integer that a GPU gives: the nearest one that the type has; for NaN 0, or the top bit where either side has 64.
template <class To, class From>
To to_integer(From whole) {
    using Limits = std::numeric_limits<To>;
    if (whole != whole)
        return sizeof(From) == 8 || sizeof(To) == 8 ? static_cast<To>(1ull << (8 * sizeof(To) - 1)) : 0;
    if (whole < static_cast<From>(Limits::min())) return Limits::min();
    if (whole >= static_cast<From>(Limits::max() / 2 + 1) * 2) return Limits::max();
    return static_cast<To>(whole);
}

// An integer as T. Compilers convert constants before they run, hence the volatile value.
template <class T, class From>
T from_integer(int direction, From value) {
    volatile From given = value;
    fesetround(direction);
    volatile T result = static_cast<T>(given);
    fesetround(FE_TONEAREST);
    return result;
}

inline float to_float(int direction, double value) {
    volatile double given = value;
    fesetround(direction);
    volatile float result = static_cast<float>(given);
    fesetround(FE_TONEAREST);
    return result;
}

}  // namespace cuda_host

#define CUDA_HOST_EACH_ROUNDING(define, ...) \
    define(rn, FE_TONEAREST, rint, __VA_ARGS__) define(rz, FE_TOWARDZERO, trunc, __VA_ARGS__) \
    define(ru, FE_UPWARD, ceil, __VA_ARGS__) define(rd, FE_DOWNWARD, floor, __VA_ARGS__)

// ---- arithmetic ----------------------------------------------------------------------------------------
#define CUDA_HOST_ROUNDED(suffix, direction, whole, T, kind, root, fused)                                        \
    inline T __##kind##add_##suffix(T a, T b) {                                                                  \
        return cuda_host::rounded(direction, [](T x, T y, T) { return x + y; }, a, b);                           \
    }                                                                                                            \
    inline T __##kind##sub_##suffix(T a, T b) {                                                                  \
        return cuda_host::rounded(direction, [](T x, T y, T) { return x - y; }, a, b);                           \
    }                                                                                                            \
    inline T __##kind##mul_##suffix(T a, T b) {                                                                  \
        return cuda_host::rounded(direction, [](T x, T y, T) { return x * y; }, a, b);                           \
    }                                                                                                            \
    inline T __##kind##div_##suffix(T a, T b) {                                                                  \
        return cuda_host::rounded(direction, [](T x, T y, T) { return x / y; }, a, b);                           \
    }                                                                                                            \
    inline T __##kind##rcp_##suffix(T a) {                                                                       \
        return cuda_host::rounded(direction, [](T x, T, T) { return 1 / x; }, a);                                \
    }                                                                                                            \
    inline T __##kind##sqrt_##suffix(T a) {                                                                      \
        return cuda_host::rounded(direction, [](T x, T, T) { return root(x); }, a);                              \
    }                                                                                                            \
    inline T __##fused##_##suffix(T a, T b, T c) {                                                               \
        return cuda_host::rounded(direction, [](T x, T y, T z) { return fma(x, y, z); }, a, b, c);               \
    }
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_ROUNDED, float, f, sqrtf, fmaf)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_ROUNDED, double, d, sqrt, fma)
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }

// ---- conversions ---------------------------------------------------------------------------------------
#define CUDA_HOST_TO_INTEGER(suffix, direction, whole, From, from, To, to) \
    inline To __##from##2##to##_##suffix(From x) { return cuda_host::to_integer<To>(static_cast<From>(whole(x))); }
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, float, float, int, int)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, float, float, unsigned, uint)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, float, float, long long, ll)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, float, float, unsigned long long, ull)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, double, double, int, int)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, double, double, unsigned, uint)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, double, double, long long, ll)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_INTEGER, double, double, unsigned long long, ull)

#define CUDA_HOST_FROM_INTEGER(suffix, direction, whole, From, from, To, to) \
    inline To __##from##2##to##_##suffix(From x) { return cuda_host::from_integer<To>(direction, x); }
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_FROM_INTEGER, int, int, float, float)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_FROM_INTEGER, unsigned, uint, float, float)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_FROM_INTEGER, long long, ll, float, float)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_FROM_INTEGER, unsigned long long, ull, float, float)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_FROM_INTEGER, long long, ll, double, double)
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_FROM_INTEGER, unsigned long long, ull, double, double)
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }

#define CUDA_HOST_TO_FLOAT(suffix, direction, whole, name) \
    inline float name##_##suffix(double x) { return cuda_host::to_float(direction, x); }
CUDA_HOST_EACH_ROUNDING(CUDA_HOST_TO_FLOAT, __double2float)
