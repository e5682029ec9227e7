// A stack that can be left and come back to: the place where one CUDA thread runs. For scheduler.cpp alone.
#pragma once

#include <stddef.h>

namespace cuda_host {

// A GPU gives a thread up to 512 KiB of local memory. What a kernel doesn't touch costs no memory here.
constexpr size_t kStackBytes = 640 * 1024;

}  // namespace cuda_host

#if defined(__x86_64__) || defined(__aarch64__)

// Saves the callee-saved registers on the stack, the stack pointer in *leave, and goes on at `enter`.
extern "C" void cuda_host_switch(void** leave, void* enter);

#if defined(__APPLE__)
#define CUDA_HOST_SYMBOL "_cuda_host_switch"
#else
#define CUDA_HOST_SYMBOL "cuda_host_switch"
#endif

#if defined(__x86_64__)
asm(R"(
    .text
    .globl )" CUDA_HOST_SYMBOL "\n" CUDA_HOST_SYMBOL R"(:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
constexpr int kSavedWords = 6;
#else
asm(R"(
    .text
    .globl )" CUDA_HOST_SYMBOL "\n" CUDA_HOST_SYMBOL R"(:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
constexpr int kSavedWords = 20;
#endif

namespace cuda_host {

struct Context {
    void* stack_pointer = nullptr;

    void prepare(char* stack, void (*run)()) {
        void** top = reinterpret_cast<void**>(stack + kStackBytes);
#if defined(__x86_64__)
        *--top = nullptr;  // keeps the alignment of a call, and ends a debugger's backtrace
        *--top = reinterpret_cast<void*>(run);
        for (int word = 0; word < kSavedWords; ++word) *--top = nullptr;
#else
        for (int word = 0; word < kSavedWords; ++word) *--top = nullptr;
        top[11] = reinterpret_cast<void*>(run);  // x30, where `ret` goes
#endif
        stack_pointer = top;
    }
};

inline void switch_context(Context& from, Context& to) { cuda_host_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace cuda_host

#else  // any other machine: correct, and about four times slower

#include <ucontext.h>

namespace cuda_host {

struct Context {
    ucontext_t context;

    void prepare(char* stack, void (*run)()) {
        getcontext(&context);
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = kStackBytes;
        context.uc_link = nullptr;
        makecontext(&context, run, 0);
    }
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.context, &to.context); }

}  // namespace cuda_host

#endif
