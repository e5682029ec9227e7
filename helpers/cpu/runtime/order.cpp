// The order that __threadfence and an atomic make between threads, for ThreadSanitizer; elsewhere nothing calls this.
//
// An atomic alone orders nothing. After a fence, it publishes what came before the fence, and whoever finds the value
// by an atomic or a volatile read comes after that. (CUDA wants a fence on the reader's side too. NVIDIA's own samples
// leave it out, so a missing one is no report here.)
//
// The atomic itself comes behind the fence, so nothing would order it before the plain store by which the last block
// resets its ticket: what a thread that has fenced does by atomics is therefore not looked at.
//
// A volatile access to global memory is to the hardware what a relaxed atomic is. In shared memory it stays a plain
// access, so that the missing __syncwarp of a warp that counts on running in lockstep is still found.

#include "block.h"

namespace cuda_host {

void change() { changed = true; }

void fence(Where where) {
    block->fenced = true;
    current->fiber->clocks.fence();
    found_unchanged(nullptr, 0, where);
}

void begin_atomic(void* address) {
    tell::acquire(address);
    if (!current->fiber->clocks.has_fenced()) return;
    current->fiber->clocks.publish(address);
    tell::ignore_accesses();
}

void end_atomic() {
    if (current->fiber->clocks.has_fenced()) tell::heed_accesses();
}

}  // namespace cuda_host

#if defined(CUDA_HOST_TSAN)

// What the compiler calls before each volatile access (--param=tsan-distinguish-volatile=1), by its size. The last call
// in each is a jump, so that reports show the kernel's own line. Nobody looks at a result
// (it is there to make the jump); order 0 is "relaxed".
#define CUDA_HOST_VOLATILE(bytes, bits, Word)                                                                \
    extern "C" Word __tsan_read##bytes(void*);                                                               \
    extern "C" Word __tsan_write##bytes(void*);                                                              \
    extern "C" Word __tsan_atomic##bits##_load(const volatile Word*, int order);                             \
    extern "C" Word __tsan_atomic##bits##_fetch_or(volatile Word*, Word, int order);                         \
    extern "C" Word __tsan_volatile_read##bytes(Word* address) {                                             \
        cuda_host::found_unchanged(address, static_cast<unsigned long long>(*address), {},                   \
                                   __builtin_return_address(0));                                             \
        if (cuda_host::is_shared(address)) return __tsan_read##bytes(address);                               \
        cuda_host::begin_atomic(address);                                                                    \
        cuda_host::end_atomic();                                                                             \
        return __tsan_atomic##bits##_load(address, 0);                                                       \
    }                                                                                                        \
    extern "C" Word __tsan_volatile_write##bytes(Word* address) {                                            \
        cuda_host::change();                                                                                 \
        if (cuda_host::is_shared(address)) return __tsan_write##bytes(address);                              \
        cuda_host::begin_atomic(address);                                                                    \
        cuda_host::end_atomic();                                                                             \
        return __tsan_atomic##bits##_fetch_or(address, 0, 0);                                                \
    }
CUDA_HOST_VOLATILE(1, 8, char)
CUDA_HOST_VOLATILE(2, 16, short)
CUDA_HOST_VOLATILE(4, 32, int)
CUDA_HOST_VOLATILE(8, 64, long)

#endif
