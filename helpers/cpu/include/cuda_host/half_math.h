// The functions that __half and __nv_bfloat16 have in common, and those of their pairs.
#pragma once

#include <math.h>

#include "half_types.h"
#include "intrinsics.h"
#include "rounding.h"

namespace cuda_host {

// a * b + c for one more rounding: see odd_float.
inline float odd_fma(float a, float b, float c) {
    double product = static_cast<double>(a) * b, sum = product + c;  // the product is exact
    double other = sum - product, error = (product - (sum - other)) + (c - other);
    if (error != 0 && isfinite(sum) && same_bits<unsigned long long>(sum) % 2 == 0)
        sum = nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
    return odd_float(sum);
}

// Directed rounding: one step back where rounding to nearest went the wrong way.
template <class Half>
Half directed(int direction, float value) {
    Half nearest(value);
    float got = nearest;
    bool negative = same_bits<unsigned>(value) >> 31;
    bool up = direction == FE_UPWARD || (direction == FE_TOWARDZERO && negative);
    if (isnan(value) || got == value || up == (got > value)) return nearest;
    bool away = negative != up;  // away from zero: the next number of larger magnitude
    unsigned short bits = same_bits<unsigned short>(nearest);
    if (up && got == 0 && negative) return same_bits<Half>(static_cast<unsigned short>(0x8000));
    return same_bits<Half>(static_cast<unsigned short>(away ? bits + 1 : bits - 1));
}

}  // namespace cuda_host

#define CUDA_HOST_HALF_UNARY(T, T2, name, name2, expression)                     \
    inline T name(T value) { float x = value; return T(expression); }            \
    inline T2 name2(T2 a) { return {name(a.x), name(a.y)}; }
#define CUDA_HOST_HALF_BINARY(T, T2, name, name2, expression)                    \
    inline T name(T a, T b) { float x = a, y = b; return T(expression); }        \
    inline T2 name2(T2 a, T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
// Comparisons. The plain ones are false for NaN (but !=), those that end in u are true.
#define CUDA_HOST_HALF_COMPARE(T, T2, word, sign)                                                              \
    inline bool __h##word(T a, T b) { return float(a) sign float(b) && !(isnan(float(a)) || isnan(float(b))); } \
    inline bool __h##word##u(T a, T b) { return float(a) sign float(b) || isnan(float(a)) || isnan(float(b)); } \
    inline T2 __h##word##2(T2 a, T2 b) { return {T(__h##word(a.x, b.x)), T(__h##word(a.y, b.y))}; }              \
    inline T2 __h##word##u2(T2 a, T2 b) { return {T(__h##word##u(a.x, b.x)), T(__h##word##u(a.y, b.y))}; }       \
    inline bool __hb##word##2(T2 a, T2 b) { return __h##word(a.x, b.x) && __h##word(a.y, b.y); }                 \
    inline bool __hb##word##u2(T2 a, T2 b) { return __h##word##u(a.x, b.x) && __h##word##u(a.y, b.y); }
#define CUDA_HOST_HALF_INTEGER(T, half, From, from)                                                           \
    inline T __##from##2##half##_rn(From x) { return T(x); }                                                  \
    inline From __##half##2##from##_rn(T x) { return cuda_host::to_integer<From>(rintf(float(x))); }          \
    inline From __##half##2##from##_rz(T x) { return cuda_host::to_integer<From>(truncf(float(x))); }         \
    inline From __##half##2##from##_ru(T x) { return cuda_host::to_integer<From>(ceilf(float(x))); }          \
    inline From __##half##2##from##_rd(T x) { return cuda_host::to_integer<From>(floorf(float(x))); }

// T, T2: the type and its pair. half, half2: how the names of conversions spell them.
#define CUDA_HOST_HALF_MATH(T, T2, half, half2)                                                   \
    CUDA_HOST_HALF_BINARY(T, T2, __hadd, __hadd2, x + y)                                          \
    CUDA_HOST_HALF_BINARY(T, T2, __hsub, __hsub2, x - y)                                          \
    CUDA_HOST_HALF_BINARY(T, T2, __hmul, __hmul2, x * y)                                          \
    CUDA_HOST_HALF_BINARY(T, T2, __hadd_rn, __hadd2_rn, x + y)                                    \
    CUDA_HOST_HALF_BINARY(T, T2, __hsub_rn, __hsub2_rn, x - y)                                    \
    CUDA_HOST_HALF_BINARY(T, T2, __hmul_rn, __hmul2_rn, x * y)                                    \
    CUDA_HOST_HALF_BINARY(T, T2, __hadd_sat, __hadd2_sat, __saturatef(x + y))                     \
    CUDA_HOST_HALF_BINARY(T, T2, __hsub_sat, __hsub2_sat, __saturatef(x - y))                     \
    CUDA_HOST_HALF_BINARY(T, T2, __hmul_sat, __hmul2_sat, __saturatef(x * y))                     \
    CUDA_HOST_HALF_BINARY(T, T2, __hdiv, __h2div, x / y)                                          \
    CUDA_HOST_HALF_BINARY(T, T2, __hmin, __hmin2, fminf(x, y))                                    \
    CUDA_HOST_HALF_BINARY(T, T2, __hmax, __hmax2, fmaxf(x, y))                                    \
    CUDA_HOST_HALF_BINARY(T, T2, __hmin_nan, __hmin2_nan, x != x || y != y ? x + y : fminf(x, y)) \
    CUDA_HOST_HALF_BINARY(T, T2, __hmax_nan, __hmax2_nan, x != x || y != y ? x + y : fmaxf(x, y)) \
    CUDA_HOST_HALF_UNARY(T, T2, __hneg, __hneg2, -x)                                              \
    CUDA_HOST_HALF_UNARY(T, T2, __habs, __habs2, fabsf(x))                                        \
    CUDA_HOST_HALF_UNARY(T, T2, hexp, h2exp, expf(x))                                             \
    CUDA_HOST_HALF_UNARY(T, T2, hexp2, h2exp2, exp2f(x))                                          \
    CUDA_HOST_HALF_UNARY(T, T2, hexp10, h2exp10, exp10f(x))                                       \
    CUDA_HOST_HALF_UNARY(T, T2, hlog, h2log, logf(x))                                             \
    CUDA_HOST_HALF_UNARY(T, T2, hlog2, h2log2, log2f(x))                                          \
    CUDA_HOST_HALF_UNARY(T, T2, hlog10, h2log10, log10f(x))                                       \
    CUDA_HOST_HALF_UNARY(T, T2, hsin, h2sin, sinf(x))                                             \
    CUDA_HOST_HALF_UNARY(T, T2, hcos, h2cos, cosf(x))                                             \
    CUDA_HOST_HALF_UNARY(T, T2, htanh, h2tanh, tanhf(x))                                          \
    CUDA_HOST_HALF_UNARY(T, T2, hsqrt, h2sqrt, sqrtf(x))                                          \
    CUDA_HOST_HALF_UNARY(T, T2, hrsqrt, h2rsqrt, rsqrtf(x))                                       \
    CUDA_HOST_HALF_UNARY(T, T2, hrcp, h2rcp, 1.0f / x)                                            \
    CUDA_HOST_HALF_UNARY(T, T2, hceil, h2ceil, ceilf(x))                                          \
    CUDA_HOST_HALF_UNARY(T, T2, hfloor, h2floor, floorf(x))                                       \
    CUDA_HOST_HALF_UNARY(T, T2, htrunc, h2trunc, truncf(x))                                       \
    CUDA_HOST_HALF_UNARY(T, T2, hrint, h2rint, rintf(x))                                          \
    CUDA_HOST_HALF_COMPARE(T, T2, eq, ==)                                                         \
    CUDA_HOST_HALF_COMPARE(T, T2, ne, !=)                                                         \
    CUDA_HOST_HALF_COMPARE(T, T2, lt, <)                                                          \
    CUDA_HOST_HALF_COMPARE(T, T2, le, <=)                                                         \
    CUDA_HOST_HALF_COMPARE(T, T2, gt, >)                                                          \
    CUDA_HOST_HALF_COMPARE(T, T2, ge, >=)                                                         \
    CUDA_HOST_HALF_INTEGER(T, half, int, int)                                                     \
    CUDA_HOST_HALF_INTEGER(T, half, unsigned, uint)                                               \
    CUDA_HOST_HALF_INTEGER(T, half, short, short)                                                 \
    CUDA_HOST_HALF_INTEGER(T, half, unsigned short, ushort)                                       \
    CUDA_HOST_HALF_INTEGER(T, half, long long, ll)                                                \
    CUDA_HOST_HALF_INTEGER(T, half, unsigned long long, ull)                                      \
    inline T __hfma(T a, T b, T c) { return T(cuda_host::odd_fma(a, b, c)); }                     \
    inline T __hfma_sat(T a, T b, T c) { return T(__saturatef(cuda_host::odd_fma(a, b, c))); }    \
    inline T __hfma_relu(T a, T b, T c) { return __hmax_nan(__hfma(a, b, c), T(0)); }             \
    inline T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
    inline bool __hisnan(T x) { return isnan(float(x)); }                                         \
    inline int __hisinf(T x) { return isinf(float(x)) ? (float(x) < 0 ? -1 : 1) : 0; }            \
    inline T2 __hisnan2(T2 a) { return {T(__hisnan(a.x)), T(__hisnan(a.y))}; }                    \
    inline T __float2##half(float x) { return T(x); }                                             \
    inline T __float2##half##_rn(float x) { return T(x); }                                        \
    inline T __float2##half##_rz(float x) { return cuda_host::directed<T>(FE_TOWARDZERO, x); }    \
    inline T __float2##half##_ru(float x) { return cuda_host::directed<T>(FE_UPWARD, x); }        \
    inline T __float2##half##_rd(float x) { return cuda_host::directed<T>(FE_DOWNWARD, x); }      \
    inline T __double2##half(double x) { return T(cuda_host::odd_float(x)); }                     \
    inline float __##half##2float(T x) { return x; }                                              \
    inline unsigned short __##half##_as_ushort(T x) { return cuda_host::same_bits<unsigned short>(x); } \
    inline short __##half##_as_short(T x) { return cuda_host::same_bits<short>(x); }              \
    inline T __ushort_as_##half(unsigned short x) { return cuda_host::same_bits<T>(x); }          \
    inline T __short_as_##half(short x) { return cuda_host::same_bits<T>(x); }                    \
    inline T2 __floats2##half2##_rn(float x, float y) { return {T(x), T(y)}; }                    \
    inline T2 __float2##half2##_rn(float x) { return {T(x), T(x)}; }                              \
    inline T2 __float22##half2##_rn(float2 v) { return {T(v.x), T(v.y)}; }                        \
    inline float2 __##half2##2float2(T2 v) { return {v.x, v.y}; }                                 \
    inline T2 __##half##2##half2(T x) { return {x, x}; }                                          \
    inline T2 __halves2##half2(T x, T y) { return {x, y}; }                                       \
    inline T2 make_##half2(T x, T y) { return {x, y}; }                                           \
    inline T __low2##half(T2 v) { return v.x; }                                                   \
    inline T __high2##half(T2 v) { return v.y; }                                                  \
    inline float __low2float(T2 v) { return v.x; }                                                \
    inline float __high2float(T2 v) { return v.y; }                                               \
    inline T2 __low2##half2(T2 v) { return {v.x, v.x}; }                                          \
    inline T2 __high2##half2(T2 v) { return {v.y, v.y}; }                                         \
    inline T2 __lowhigh2highlow(T2 v) { return {v.y, v.x}; }                                      \
    inline T2 __lows2##half2(T2 a, T2 b) { return {a.x, b.x}; }                                   \
    inline T2 __highs2##half2(T2 a, T2 b) { return {a.y, b.y}; }                                  \
    inline T2 operator+(T2 a, T2 b) { return __hadd2(a, b); }                                     \
    inline T2 operator-(T2 a, T2 b) { return __hsub2(a, b); }                                     \
    inline T2 operator*(T2 a, T2 b) { return __hmul2(a, b); }                                     \
    inline T2 operator/(T2 a, T2 b) { return __h2div(a, b); }                                     \
    inline T2 operator-(T2 a) { return __hneg2(a); }                                              \
    inline T2& operator+=(T2& a, T2 b) { return a = a + b; }                                      \
    inline T2& operator-=(T2& a, T2 b) { return a = a - b; }                                      \
    inline T2& operator*=(T2& a, T2 b) { return a = a * b; }                                      \
    inline T2& operator/=(T2& a, T2 b) { return a = a / b; }                                      \
    inline bool operator==(T2 a, T2 b) { return __hbeq2(a, b); }                                  \
    inline bool operator!=(T2 a, T2 b) { return !__hbeq2(a, b); }                                 \
    inline bool operator<(T2 a, T2 b) { return __hblt2(a, b); }                                   \
    inline bool operator<=(T2 a, T2 b) { return __hble2(a, b); }                                  \
    inline bool operator>(T2 a, T2 b) { return __hbgt2(a, b); }                                   \
    inline bool operator>=(T2 a, T2 b) { return __hbge2(a, b); }
