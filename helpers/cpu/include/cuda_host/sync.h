// Barriers, warp operations and atomics.
#pragma once

#include "runtime.h"
#include "types.h"

#define CUDA_HOST_HERE cuda_host::Where where = {__builtin_FILE(), __builtin_LINE()}

// ---- the block -----------------------------------------------------------------------------------------
inline void __syncthreads(CUDA_HOST_HERE) { cuda_host::block_barrier("__syncthreads", false, where); }
inline int __syncthreads_count(int predicate, CUDA_HOST_HERE) {
    return cuda_host::block_barrier("__syncthreads_count", predicate, where).yes;
}
inline int __syncthreads_or(int predicate, CUDA_HOST_HERE) {
    return cuda_host::block_barrier("__syncthreads_or", predicate, where).yes > 0;
}
inline int __syncthreads_and(int predicate, CUDA_HOST_HERE) {
    cuda_host::Vote vote = cuda_host::block_barrier("__syncthreads_and", predicate, where);
    return vote.yes == vote.threads;
}

// ---- the warp ------------------------------------------------------------------------------------------
namespace cuda_host {

inline Exchange vote(const char* name, unsigned mask, bool yes, Where where) {
    Exchange mine;
    mine.value = yes;
    warp_operation(name, WarpOp::Ballot, mask, mine, where);
    return mine;
}

template <class T>
T exchange(const char* name, WarpOp op, unsigned mask, T value, int source, Where where) {
    static_assert(sizeof(T) <= 8, "a warp operation takes values of up to 8 bytes");
    Exchange mine;
    __builtin_memcpy(&mine.value, &value, sizeof value);
    mine.source = source;
    warp_operation(name, op, mask, mine, where);
    T result;
    __builtin_memcpy(&result, &mine.result, sizeof result);
    return result;
}

inline int lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize; }

}  // namespace cuda_host

inline void __syncwarp(unsigned mask = 0xffffffffu, CUDA_HOST_HERE) {
    cuda_host::Exchange mine;
    cuda_host::warp_operation("__syncwarp", cuda_host::WarpOp::Sync, mask, mine, where);
}
inline unsigned __activemask(CUDA_HOST_HERE) { return cuda_host::lanes_together(where); }
inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_HOST_HERE) {
    return static_cast<unsigned>(cuda_host::vote("__ballot_sync", mask, predicate, where).result);
}
inline int __any_sync(unsigned mask, int predicate, CUDA_HOST_HERE) {
    return cuda_host::vote("__any_sync", mask, predicate, where).result != 0;
}
inline int __all_sync(unsigned mask, int predicate, CUDA_HOST_HERE) {
    cuda_host::Exchange mine = cuda_host::vote("__all_sync", mask, predicate, where);
    return mine.result == mine.lanes;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, CUDA_HOST_HERE) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return static_cast<unsigned>(
        cuda_host::exchange("__match_any_sync", cuda_host::WarpOp::MatchAny, mask, bits, 0, where));
}

// A lane whose source lies outside its segment of `width` lanes keeps its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, CUDA_HOST_HERE) {
    int segment = cuda_host::lane() & ~(width - 1);
    return cuda_host::exchange("__shfl_sync", cuda_host::WarpOp::Shuffle, mask, value,
                               segment + (source & (width - 1)), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, CUDA_HOST_HERE) {
    int lane = cuda_host::lane(), segment = lane & ~(width - 1), source = lane - static_cast<int>(delta);
    return cuda_host::exchange("__shfl_up_sync", cuda_host::WarpOp::Shuffle, mask, value,
                               source < segment ? lane : source, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, CUDA_HOST_HERE) {
    int lane = cuda_host::lane(), last = lane | (width - 1), source = lane + static_cast<int>(delta);
    return cuda_host::exchange("__shfl_down_sync", cuda_host::WarpOp::Shuffle, mask, value,
                               source > last ? lane : source, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize, CUDA_HOST_HERE) {
    int lane = cuda_host::lane(), last = lane | (width - 1), source = lane ^ lanes;
    return cuda_host::exchange("__shfl_xor_sync", cuda_host::WarpOp::Shuffle, mask, value,
                               source > last ? lane : source, where);
}

#define CUDA_HOST_REDUCE(T, name, op)                                                       \
    inline T name(unsigned mask, T value, CUDA_HOST_HERE) {                                 \
        return cuda_host::exchange(#name, cuda_host::WarpOp::op, mask, value, 0, where);    \
    }
CUDA_HOST_REDUCE(unsigned, __reduce_add_sync, Add)
CUDA_HOST_REDUCE(unsigned, __reduce_min_sync, MinUnsigned)
CUDA_HOST_REDUCE(unsigned, __reduce_max_sync, MaxUnsigned)
CUDA_HOST_REDUCE(int, __reduce_add_sync, Add)
CUDA_HOST_REDUCE(int, __reduce_min_sync, MinSigned)
CUDA_HOST_REDUCE(int, __reduce_max_sync, MaxSigned)
CUDA_HOST_REDUCE(unsigned, __reduce_and_sync, And)
CUDA_HOST_REDUCE(unsigned, __reduce_or_sync, Or)
CUDA_HOST_REDUCE(unsigned, __reduce_xor_sync, Xor)

// ---- memory --------------------------------------------------------------------------------------------
// One thread runs at a time, so a fence needs no code. ThreadSanitizer has to be told: see ../../runtime/order.cpp.
#if defined(__SANITIZE_THREAD__)
inline void __threadfence(CUDA_HOST_HERE) { cuda_host::fence(where); }
#else
inline void __threadfence(CUDA_HOST_HERE) { cuda_host::found_unchanged(nullptr, 0, where); }
#endif
inline void __threadfence_block(CUDA_HOST_HERE) { __threadfence(where); }
inline void __threadfence_system(CUDA_HOST_HERE) { __threadfence(where); }
inline void __nanosleep(unsigned, CUDA_HOST_HERE) { cuda_host::spin(where); }

// Real atomics, and relaxed, as CUDA's are: a race detector then knows them and learns no order from them.
namespace cuda_host {

template <class T>
struct same { using type = T; };  // keeps a second argument out of template deduction: the address decides
template <class T>
using same_t = typename same<T>::type;

inline void before_atomic([[maybe_unused]] void* address) {
#if defined(__SANITIZE_THREAD__)
    begin_atomic(address);
#endif
}

// An atomic that leaves what it finds may be the wait for another thread.
template <class T>
T after_atomic(T* address, T old, bool has_changed, Where where) {
#if defined(__SANITIZE_THREAD__)
    end_atomic();
#endif
    if (!has_changed) {
        unsigned long long value = 0;
        __builtin_memcpy(&value, &old, sizeof old);
        found_unchanged(address, value, where);
    } else {
#if defined(__SANITIZE_THREAD__)
        change();
#else
        changed = true;
#endif
    }
    return old;
}

template <class T, class Update>
T atomic_update(T* address, Update update, Where where) {
    before_atomic(address);
    T old, wanted;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        wanted = update(old);
    } while (!__atomic_compare_exchange(address, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return after_atomic(address, old, __builtin_memcmp(&old, &wanted, sizeof old) != 0, where);
}

}  // namespace cuda_host

template <class T>
T atomicAdd(T* address, cuda_host::same_t<T> value, CUDA_HOST_HERE) {
    if constexpr (std::is_integral_v<T>) {
        cuda_host::before_atomic(address);
        T old = __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
        return cuda_host::after_atomic(address, old, value != 0, where);
    } else {
        return cuda_host::atomic_update(address, [&](T old) { return static_cast<T>(old + value); }, where);
    }
}
#define CUDA_HOST_ATOMIC(name, result)                                                                    \
    template <class T>                                                                                    \
    T name(T* address, cuda_host::same_t<T> value, CUDA_HOST_HERE) {                                      \
        return cuda_host::atomic_update(address, [&](T old) { return static_cast<T>(result); }, where);   \
    }
CUDA_HOST_ATOMIC(atomicSub, old - value)
CUDA_HOST_ATOMIC(atomicAnd, old & value)
CUDA_HOST_ATOMIC(atomicOr, old | value)
CUDA_HOST_ATOMIC(atomicXor, old ^ value)
CUDA_HOST_ATOMIC(atomicMax, old < value ? value : old)
CUDA_HOST_ATOMIC(atomicMin, value < old ? value : old)
CUDA_HOST_ATOMIC(atomicExch, value)
template <class T>
T atomicCAS(T* address, cuda_host::same_t<T> compare, cuda_host::same_t<T> value, CUDA_HOST_HERE) {
    return cuda_host::atomic_update(address, [&](T old) { return old == compare ? value : old; }, where);
}
inline unsigned atomicInc(unsigned* address, unsigned limit, CUDA_HOST_HERE) {
    return cuda_host::atomic_update(address, [&](unsigned old) { return old >= limit ? 0 : old + 1; }, where);
}
