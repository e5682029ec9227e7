// IEEE half precision on the host: stored as bits, computed in float, rounded to nearest even.
#pragma once

#include "cuda_host/half_math.h"

namespace cuda_host {

inline unsigned short half_bits(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned short>(0x7fffu);           // NaN
    if (magnitude >= 0x47800000u) return static_cast<unsigned short>(sign | 0x7c00u);   // 65536 and above
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24, the subnormal step
        unsigned rounded = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
        return static_cast<unsigned short>(sign | rounded);
    }
    unsigned rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23);
    return static_cast<unsigned short>(sign | rounded >> 13);
}

inline float half_value(unsigned short half) {
    unsigned sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude < 0x400u) return __uint_as_float(sign | __float_as_uint(magnitude * 0x1p-24f));
    return __uint_as_float(sign | ((magnitude << 13) + (112u << 23)));
}

}  // namespace cuda_host

CUDA_HOST_HALF_TYPE(__half, cuda_host::half_bits, cuda_host::half_value)
using half = __half;
CUDA_HOST_HALF_PAIR(__half2, __half)
using half2 = __half2;
CUDA_HOST_HALF_MATH(__half, __half2, half, half2)
