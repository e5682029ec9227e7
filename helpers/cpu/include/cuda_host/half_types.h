// What __half and __nv_bfloat16 have in common.
#pragma once

#include "numerics.h"
#include "types.h"

#define CUDA_HOST_HALF_TYPE(type, to_bits, to_float)                                                 \
    struct __align__(2) type {                                                                       \
        unsigned short bits;                                                                         \
        type() = default;                                                                            \
        template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                        \
        type(T value) : bits(to_bits(static_cast<float>(value))) {}                                  \
        operator float() const { return to_float(bits); }                                            \
        type& operator+=(type other) { return *this = type(float(*this) + float(other)); }           \
        type& operator-=(type other) { return *this = type(float(*this) - float(other)); }           \
        type& operator*=(type other) { return *this = type(float(*this) * float(other)); }           \
        type& operator/=(type other) { return *this = type(float(*this) / float(other)); }           \
    };                                                                                               \
    inline type operator+(type a, type b) { return a += b; }                                         \
    inline type operator-(type a, type b) { return a -= b; }                                         \
    inline type operator*(type a, type b) { return a *= b; }                                         \
    inline type operator/(type a, type b) { return a /= b; }                                         \
    inline type operator-(type a) { return type(-float(a)); }
