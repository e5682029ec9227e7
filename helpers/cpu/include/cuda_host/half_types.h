// What __half and __nv_bfloat16 have in common.
#pragma once

#include <math.h>

#include "numerics.h"
#include "types.h"

namespace cuda_host {

// A double as a float that will be rounded once more, to 22 bits or less. What is cut off leaves the last bit set ("round
// to odd"), so that a number just beside the middle of two results isn't taken for the middle.
inline float odd_float(double value) {
    float result = static_cast<float>(value);
    if (isfinite(result) && result != value && same_bits<unsigned>(result) % 2 == 0)
        result = nextafterf(result, result < value ? HUGE_VALF : -HUGE_VALF);
    return result;
}

// Any number as a float, for the one rounding that follows.
template <class T>
float narrow(T value) {
    if constexpr (std::is_same_v<T, float>)
        return value;
    else
        return odd_float(static_cast<double>(value));
}

}  // namespace cuda_host

#define CUDA_HOST_HALF_TYPE(type, to_bits, to_float)                                                 \
    struct __align__(2) type {                                                                       \
        unsigned short bits;                                                                         \
        type() = default;                                                                            \
        template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                        \
        type(T value) : bits(to_bits(cuda_host::narrow(value))) {}                                   \
        operator float() const { return to_float(bits); }                                            \
        type& operator+=(type other) { return *this = type(float(*this) + float(other)); }           \
        type& operator-=(type other) { return *this = type(float(*this) - float(other)); }           \
        type& operator*=(type other) { return *this = type(float(*this) * float(other)); }           \
        type& operator/=(type other) { return *this = type(float(*this) / float(other)); }           \
        type& operator++() { return *this += type(1.0f); }                                           \
        type& operator--() { return *this -= type(1.0f); }                                           \
    };                                                                                               \
    inline type operator+(type a, type b) { return a += b; }                                         \
    inline type operator-(type a, type b) { return a -= b; }                                         \
    inline type operator*(type a, type b) { return a *= b; }                                         \
    inline type operator/(type a, type b) { return a /= b; }                                         \
    inline type operator-(type a) { return type(-float(a)); }

#define CUDA_HOST_HALF_PAIR(type, half)                  \
    struct __align__(4) type {                           \
        half x, y;                                       \
        type() = default;                                \
        type(half x, half y) : x(x), y(y) {}             \
    };
