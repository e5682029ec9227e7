// Bit intrinsics, fast math, cached loads and the few control intrinsics.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include <type_traits>

#include "runtime.h"

// ---- bits ----------------------------------------------------------------------------------------------
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((1ull * a * b) >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>(((1ull * high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((1ull * high << 32 | low) >> (shift & 31));
}

namespace cuda_host {
template <class To, class From>
To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same_bits needs equal sizes");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
}  // namespace cuda_host

inline unsigned __float_as_uint(float x) { return cuda_host::same_bits<unsigned>(x); }
inline int __float_as_int(float x) { return cuda_host::same_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return cuda_host::same_bits<float>(x); }
inline float __int_as_float(int x) { return cuda_host::same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_host::same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_host::same_bits<double>(x); }

// ---- arithmetic ----------------------------------------------------------------------------------------
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)  // of a number and NaN: the number
        return sizeof(T) == 4 ? static_cast<T>(__builtin_fminf(a, b)) : static_cast<T>(__builtin_fmin(a, b));
    else
        return static_cast<T>(b) < static_cast<T>(a) ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return sizeof(T) == 4 ? static_cast<T>(__builtin_fmaxf(a, b)) : static_cast<T>(__builtin_fmax(a, b));
    else
        return static_cast<T>(a) < static_cast<T>(b) ? b : a;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
inline float __fdividef(float a, float b) { return a / b; }
// Macros, because glibc's math.h declares functions of these names.
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

// ---- loads and stores with a cache hint ----------------------------------------------------------------
#define CUDA_HOST_LOAD(name) template <class T> T name(const T* address) { return *address; }
CUDA_HOST_LOAD(__ldg)
CUDA_HOST_LOAD(__ldca)
CUDA_HOST_LOAD(__ldcg)
CUDA_HOST_LOAD(__ldcs)
CUDA_HOST_LOAD(__ldcv)
#define CUDA_HOST_STORE(name) template <class T> void name(T* address, T value) { *address = value; }
CUDA_HOST_STORE(__stwb)
CUDA_HOST_STORE(__stcg)
CUDA_HOST_STORE(__stcs)
CUDA_HOST_STORE(__stwt)

// ---- control -------------------------------------------------------------------------------------------
[[noreturn]] inline void __trap(cuda_host::Where where = {__builtin_FILE(), __builtin_LINE()}) {
    cuda_host::fault("trap", "__trap()", where);
}
inline long long clock64() {
#if defined(__x86_64__)
    return static_cast<long long>(__builtin_ia32_rdtsc());
#else
    static long long ticks = 0;
    return ++ticks;
#endif
}

#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : cuda_host::fault("assertion failed", #condition, {__FILE__, __LINE__}))
