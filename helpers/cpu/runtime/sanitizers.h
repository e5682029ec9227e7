// What each sanitizer must be told about fibers, barriers and shared memory; nothing in the fast build.
#pragma once

#include <stddef.h>

#if defined(CUDA_HOST_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(CUDA_HOST_MSAN)
#include <sanitizer/msan_interface.h>
#elif defined(CUDA_HOST_TSAN)
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace cuda_host::tell {

#if defined(CUDA_HOST_ASAN)
inline void out_of_bounds(void* start, size_t bytes) { __asan_poison_memory_region(start, bytes); }
inline void in_bounds(void* start, size_t bytes) { __asan_unpoison_memory_region(start, bytes); }
#elif defined(CUDA_HOST_MSAN)
inline void out_of_bounds(void* start, size_t bytes) { __msan_allocated_memory(start, bytes); }
inline void in_bounds(void* start, size_t bytes) { __msan_unpoison(start, bytes); }
#else
inline void out_of_bounds(void*, size_t) {}
inline void in_bounds(void*, size_t) {}
#endif

#if defined(CUDA_HOST_MSAN)
// The report of a later read shows the stack of this call.
inline void uninitialised(void* start, size_t bytes) { __msan_allocated_memory(start, bytes); }
// Offset of the first byte that was never written, or -1.
inline long first_uninitialised(const void* start, size_t bytes) { return __msan_test_shadow(start, bytes); }
inline void report_uninitialised(const void* start, size_t bytes) { __msan_check_mem_is_initialized(start, bytes); }
#else
inline void uninitialised(void*, size_t) {}
inline long first_uninitialised(const void*, size_t) { return -1; }
inline void report_uninitialised(const void*, size_t) {}
#endif

// Which stack is in use: the checks of local variables depend on it.
#if defined(CUDA_HOST_ASAN)
inline void leaving_for(const void* stack, size_t bytes) { __sanitizer_start_switch_fiber(nullptr, stack, bytes); }
inline void arrived(const void** old_stack, size_t* old_bytes) {
    __sanitizer_finish_switch_fiber(nullptr, old_stack, old_bytes);
}
#else
inline void leaving_for(const void*, size_t) {}
inline void arrived(const void**, size_t*) {}
#endif

// ThreadSanitizer sees every fiber as a thread. A switch orders nothing (flag 1): only the barriers do.
#if defined(CUDA_HOST_TSAN)
constexpr bool kFiberIsThread = true;
inline void* new_fiber() { return __tsan_create_fiber(0); }
inline void* this_fiber() { return __tsan_get_current_fiber(); }
inline void switch_to(void* fiber) { __tsan_switch_to_fiber(fiber, 1); }
inline void release(void* barrier) { __tsan_release(barrier); }
inline void acquire(void* barrier) { __tsan_acquire(barrier); }
// Its abort() doesn't reach a signal handler.
inline void on_death(void (*callback)()) { __sanitizer_set_death_callback(callback); }
// While one exists, memcpy and the like are no accesses of the current CUDA thread.
struct Unwatched {
    Unwatched() {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~Unwatched() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
};
#else
constexpr bool kFiberIsThread = false;
inline void* new_fiber() { return nullptr; }
inline void* this_fiber() { return nullptr; }
inline void switch_to(void*) {}
inline void release(void*) {}
inline void acquire(void*) {}
inline void on_death(void (*)()) {}
struct Unwatched {
    ~Unwatched() {}
};
#endif

}  // namespace cuda_host::tell
