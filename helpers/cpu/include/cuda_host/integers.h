// Integer intrinsics beside those in numerics.h, and the votes and atomics beside those in sync.h.
#pragma once

#include "numerics.h"
#include "sync.h"
#include "types.h"

// ---- products, sums, bytes -----------------------------------------------------------------------------
inline int __mulhi(int a, int b) { return static_cast<int>(1ll * a * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline int __mul24(int a, int b) {  // of the lower 24 bits, with their sign
    long long product = 1ll * (static_cast<int>(static_cast<unsigned>(a) << 8) >> 8) *
                        (static_cast<int>(static_cast<unsigned>(b) << 8) >> 8);
    return static_cast<int>(static_cast<unsigned>(product));
}
inline unsigned __sad(int a, int b, unsigned sum) {
    return sum + static_cast<unsigned>(a < b ? 1ll * b - a : 1ll * a - b);
}
inline unsigned __usad(unsigned a, unsigned b, unsigned sum) { return sum + (a < b ? b - a : a - b); }
inline int __hadd(int a, int b) { return static_cast<int>((1ll * a + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((1ll * a + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((1ull * a + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return static_cast<unsigned>((1ull * a + b + 1) >> 1); }
inline unsigned long long __brevll(unsigned long long x) {
    return 1ull * __brev(static_cast<unsigned>(x)) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
// The n-th set bit of `mask`, counted from bit `base` upwards (n > 0) or downwards (n < 0); ~0 when there is none.
inline unsigned __fns(unsigned mask, unsigned base, int n) {
    if (n == 0) return mask >> base & 1 ? base : ~0u;
    int step = n < 0 ? -1 : 1, left = n < 0 ? -n : n;
    for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step)
        if (mask >> bit & 1 && --left == 0) return static_cast<unsigned>(bit);
    return ~0u;
}
// Bytes 0 to 3 are x's, 4 to 7 y's. Each of the selector's lower four hex digits takes one, by its lower three bits.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long bytes = 1ull * y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned digit = selector >> 4 * i & 7;
        result |= (static_cast<unsigned>(bytes >> 8 * digit) & 0xffu) << 8 * i;
    }
    return result;
}

namespace cuda_host {
template <class Byte, class Word>
Word dot_of_bytes(unsigned a, unsigned b, Word sum) {
    unsigned total = static_cast<unsigned>(sum);
    for (int i = 0; i < 4; ++i)
        total += static_cast<unsigned>(static_cast<Byte>(a >> 8 * i) * static_cast<Byte>(b >> 8 * i));
    return static_cast<Word>(total);
}
}  // namespace cuda_host

inline int __dp4a(int a, int b, int sum) {
    return cuda_host::dot_of_bytes<signed char>(static_cast<unsigned>(a), static_cast<unsigned>(b), sum);
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) { return cuda_host::dot_of_bytes<unsigned char>(a, b, sum); }
inline int __dp4a(char4 a, char4 b, int sum) {
    return __dp4a(cuda_host::same_bits<int>(a), cuda_host::same_bits<int>(b), sum);
}
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned sum) {
    return __dp4a(cuda_host::same_bits<unsigned>(a), cuda_host::same_bits<unsigned>(b), sum);
}

// ---- a vote --------------------------------------------------------------------------------------------
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int* all_equal, CUDA_HOST_HERE) {
    cuda_host::Exchange mine;
    __builtin_memcpy(&mine.value, &value, sizeof value);
    cuda_host::warp_operation("__match_all_sync", cuda_host::WarpOp::MatchAny, mask, mine, where);
    *all_equal = mine.result == mine.lanes;
    return *all_equal ? mine.lanes : 0;
}

// ---- atomics -------------------------------------------------------------------------------------------
inline unsigned atomicDec(unsigned* address, unsigned limit, CUDA_HOST_HERE) {
    auto update = [&](unsigned old) { return old == 0 || old > limit ? limit : old - 1; };
    return cuda_host::atomic_update(address, update, where);
}
// What the templates in sync.h would take, and CUDA doesn't.
#define CUDA_HOST_NO_ATOMIC(name, T) T name(T*, T) = delete;
#define CUDA_HOST_NO_ATOMIC_LONG(name) \
    CUDA_HOST_NO_ATOMIC(name, long) CUDA_HOST_NO_ATOMIC(name, unsigned long)
#define CUDA_HOST_NO_ATOMIC_FLOAT(name) CUDA_HOST_NO_ATOMIC(name, float) CUDA_HOST_NO_ATOMIC(name, double)
CUDA_HOST_NO_ATOMIC_LONG(atomicAdd)
CUDA_HOST_NO_ATOMIC_LONG(atomicSub)
CUDA_HOST_NO_ATOMIC_LONG(atomicMin)
CUDA_HOST_NO_ATOMIC_LONG(atomicMax)
CUDA_HOST_NO_ATOMIC_LONG(atomicExch)
CUDA_HOST_NO_ATOMIC_LONG(atomicAnd)
CUDA_HOST_NO_ATOMIC_LONG(atomicOr)
CUDA_HOST_NO_ATOMIC_LONG(atomicXor)
CUDA_HOST_NO_ATOMIC_FLOAT(atomicSub)
CUDA_HOST_NO_ATOMIC_FLOAT(atomicMin)
CUDA_HOST_NO_ATOMIC_FLOAT(atomicMax)
CUDA_HOST_NO_ATOMIC(atomicAdd, long long)
CUDA_HOST_NO_ATOMIC(atomicSub, long long)
CUDA_HOST_NO_ATOMIC(atomicSub, unsigned long long)
CUDA_HOST_NO_ATOMIC(atomicExch, long long)
CUDA_HOST_NO_ATOMIC(atomicExch, double)
CUDA_HOST_NO_ATOMIC(atomicAnd, long long)
CUDA_HOST_NO_ATOMIC(atomicOr, long long)
CUDA_HOST_NO_ATOMIC(atomicXor, long long)
#define CUDA_HOST_NO_CAS(T) T atomicCAS(T*, T, T) = delete;
CUDA_HOST_NO_CAS(float)
CUDA_HOST_NO_CAS(double)
CUDA_HOST_NO_CAS(long)
CUDA_HOST_NO_CAS(unsigned long)
CUDA_HOST_NO_CAS(long long)
// Of one block, or of the whole system: the same here, where one thread runs at a time.
#define atomicAdd_block atomicAdd
#define atomicSub_block atomicSub
#define atomicExch_block atomicExch
#define atomicMin_block atomicMin
#define atomicMax_block atomicMax
#define atomicInc_block atomicInc
#define atomicDec_block atomicDec
#define atomicCAS_block atomicCAS
#define atomicAnd_block atomicAnd
#define atomicOr_block atomicOr
#define atomicXor_block atomicXor
#define atomicAdd_system atomicAdd
#define atomicSub_system atomicSub
#define atomicExch_system atomicExch
#define atomicMin_system atomicMin
#define atomicMax_system atomicMax
#define atomicInc_system atomicInc
#define atomicDec_system atomicDec
#define atomicCAS_system atomicCAS
#define atomicAnd_system atomicAnd
#define atomicOr_system atomicOr
#define atomicXor_system atomicXor
