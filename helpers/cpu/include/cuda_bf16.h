// bfloat16 on the host: the upper half of a float, rounded to nearest even.
#pragma once

#include "cuda_host/half_types.h"

namespace cuda_host {

inline unsigned short bfloat16_bits(float value) {
    unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;  // NaN
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float bfloat16_value(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }

}  // namespace cuda_host

CUDA_HOST_HALF_TYPE(__nv_bfloat16, cuda_host::bfloat16_bits, cuda_host::bfloat16_value)
using nv_bfloat16 = __nv_bfloat16;
struct __align__(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
using nv_bfloat162 = __nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return cuda_host::same_bits<unsigned short>(x); }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return cuda_host::same_bits<__nv_bfloat16>(x); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline bool __hisnan(__nv_bfloat16 x) { return isnan(static_cast<float>(x)); }
