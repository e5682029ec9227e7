// bfloat16 on the host: the upper half of a float, rounded to nearest even.
#pragma once

#include "cuda_host/half_math.h"

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
CUDA_HOST_HALF_PAIR(__nv_bfloat162, __nv_bfloat16)
using nv_bfloat162 = __nv_bfloat162;
CUDA_HOST_HALF_MATH(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
