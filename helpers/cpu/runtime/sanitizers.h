// What each sanitizer must be told about fibers, barriers and shared memory; nothing in the fast build.
#pragma once

#include <stddef.h>

#if defined(CUDA_HOST_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(CUDA_HOST_MSAN)
#include <sanitizer/msan_interface.h>
#include <ucontext.h>
extern "C" {  // as the compiler declares them
extern __thread unsigned long long __msan_param_tls[100], __msan_retval_tls[100];
extern __thread unsigned __msan_param_origin_tls[200], __msan_retval_origin_tls;
}
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

// ThreadSanitizer sees every fiber as a thread. A switch orders nothing (flag 1): only the barriers do, and a fence
// followed by an atomic. What a thread had done before its last fence is remembered by a second fiber, its courier,
// which never runs: its clock is the thread's clock at that fence, and an atomic publishes that one.
#if defined(CUDA_HOST_TSAN)
constexpr bool kFiberIsThread = true;
inline void release(void* barrier) { __tsan_release(barrier); }
inline void acquire(void* barrier) { __tsan_acquire(barrier); }
class FiberClocks {
public:
    bool is_known() const { return mine_; }
    void of_this_thread() { main_ = mine_ = __tsan_get_current_fiber(); }
    void begin_thread() {
        if (!mine_) mine_ = create();
        fenced_ = false;
    }
    void enter() { __tsan_switch_to_fiber(mine_, 1); }

    bool has_fenced() const { return fenced_; }
    void fence() {
        release(&at_fence_);
        fenced_ = true;
    }
    // Gives what came before the last fence to whoever acquires `address`.
    void publish(void* address) {
        if (!fenced_) return;
        as_courier([&] {
            acquire(&at_fence_);
            release(address);
        });
    }
    // From now on, what others published at `address` counts as done before this thread's last fence.
    void pass_on(void* address) {
        fenced_ = true;
        as_courier([&] { acquire(address); });
    }

private:
    template <class Act>
    void as_courier(Act act) {
        if (!courier_) courier_ = create();
        __tsan_switch_to_fiber(courier_, 1);
        act();
        enter();
    }

    // A new fiber comes after all that its creator has done: so that is the one which does nothing.
    static void* create() {
        void* now = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(main_, 1);
        void* created = __tsan_create_fiber(0);
        __tsan_switch_to_fiber(now, 1);
        return created;
    }

    static inline void* main_;
    void *mine_, *courier_;
    bool fenced_;
    char at_fence_;
};
// Its abort() doesn't reach a signal handler.
inline void on_death(void (*callback)()) { __sanitizer_set_death_callback(callback); }
inline void ignore_accesses() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void heed_accesses() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
// While one exists, memcpy and the like are no accesses of the current CUDA thread.
struct Unwatched {
    Unwatched() { ignore_accesses(); }
    ~Unwatched() { heed_accesses(); }
};
#else
constexpr bool kFiberIsThread = false;
inline void release(void*) {}
inline void acquire(void*) {}
struct FiberClocks {
    bool is_known() const { return true; }
    void of_this_thread() {}
    void begin_thread() {}
    void enter() {}
    bool has_fenced() const { return false; }
    void fence() {}
    void publish(void*) {}
    void pass_on(void*) {}
};
inline void on_death(void (*)()) {}
inline void ignore_accesses() {}
inline void heed_accesses() {}
struct Unwatched {
    ~Unwatched() {}
};
#endif

// While one exists, a signal handler runs, with everything as the interrupted code must find it again.
#if defined(CUDA_HOST_MSAN)
// Any call of instrumented code would lose what is to be kept.
#define CUDA_HOST_UNCHECKED __attribute__((disable_sanitizer_instrumentation))
class Interrupted {
public:
    CUDA_HOST_UNCHECKED __attribute__((always_inline)) Interrupted(const ucontext_t* context) {
        // The shadows of arguments and results, which are on their way between a caller and what it calls.
        for (int i = 0; i < 100; ++i) {
            arguments_[i] = __msan_param_tls[i];
            results_[i] = __msan_retval_tls[i];
            __msan_param_tls[i] = __msan_retval_tls[i] = 0;
        }
        for (int i = 0; i < 200; ++i) origins_[i] = __msan_param_origin_tls[i];
        result_origin_ = __msan_retval_origin_tls;
        __msan_unpoison(context, sizeof *context);
#if defined(__x86_64__)
        __msan_unpoison(context->uc_mcontext.fpregs, sizeof *context->uc_mcontext.fpregs);
#endif
    }
    CUDA_HOST_UNCHECKED __attribute__((always_inline)) ~Interrupted() {
        for (int i = 0; i < 100; ++i) {
            __msan_param_tls[i] = arguments_[i];
            __msan_retval_tls[i] = results_[i];
        }
        for (int i = 0; i < 200; ++i) __msan_param_origin_tls[i] = origins_[i];
        __msan_retval_origin_tls = result_origin_;
    }

private:
    unsigned long long arguments_[100], results_[100];
    unsigned origins_[200], result_origin_;
};
#else
#define CUDA_HOST_UNCHECKED
struct Interrupted {
    Interrupted(const void*) {}
    ~Interrupted() {}
};
#endif

}  // namespace cuda_host::tell
