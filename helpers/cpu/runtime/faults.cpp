// How a launch ends early: a fault that the scheduler found, or a signal that must not end the process.

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fiber.h"
#include "runtime.h"

namespace cuda_host {

namespace {

// SIGINT: a kernel that never ends can be interrupted from the keyboard.
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT};
constexpr int kSignalCount = sizeof kSignals / sizeof kSignals[0];

constexpr size_t kSignalStackBytes = 64 * 1024;
sigjmp_buf before_launch;
pthread_t launching;       // the OS thread that runs the kernel
bool interrupt_wanted;     // Ctrl-C came while no code of the kernel itself ran
unsigned ticks_since;
constexpr unsigned kMaxTicksSince = 100;
struct sigaction old_actions[kSignalCount];

const char* kind_of(int signal) {
    switch (signal) {
        case SIGSEGV: case SIGBUS: return "illegal address";
        case SIGFPE: return "integer division by zero";
        case SIGABRT: return "abort";
        case SIGINT: return "interrupted";
        default: return "illegal instruction";
    }
}

// A signal that came to another thread. An interrupt is meant for the launch: where a worker launches, the system still
// gives it to the main thread. A fault is that thread's own: back to who handled it before, to whom it comes again.
void on_other_thread(int signal) {
    if (signal == SIGINT) {
        pthread_kill(launching, SIGINT);
        return;
    }
    for (int i = 0; i < kSignalCount; ++i)
        if (kSignals[i] == signal) sigaction(signal, &old_actions[i], nullptr);
}

void on_signal(int signal, siginfo_t* info, void* context) {
    if (!pthread_equal(pthread_self(), launching)) return on_other_thread(signal);
    if (signal == SIGINT && has_ticks() && !is_kernel_code(instruction(context))) {
        interrupt_wanted = true;  // the next tick knows a line to name
        return;
    }
    char text[160] = "";
    const char* kind = kind_of(signal);
    if (signal == SIGSEGV || signal == SIGBUS) {
        snprintf(text, sizeof text, "access to address %p", info->si_addr);
        if (is_below_a_stack(info->si_addr)) {
            kind = "stack overflow";
            snprintf(text, sizeof text, "the thread's %zu KiB are full: too deep a recursion, or too large local arrays "
                     "(a GPU gives a thread 512 KiB)", kStackBytes / 1024);
        }
    }
    note_fault(kind, text, {nullptr, 0});
    launch->fault.address = reinterpret_cast<unsigned long long>(info->si_addr);
    launch->fault.pc = instruction(context);
    siglongjmp(before_launch, 1);
}

void interrupt_if_wanted(unsigned long long pc) {
    if (!interrupt_wanted || (!is_kernel_code(pc) && ++ticks_since < kMaxTicksSince)) return;
    note_fault(kind_of(SIGINT), "", {nullptr, 0});
    launch->fault.pc = is_kernel_code(pc) ? pc : 0;
    siglongjmp(before_launch, 1);
}

}  // namespace

}  // namespace cuda_host

// In process: a signal ends the launch, and the process goes on. Returns 1 with launch->fault filled in, or 0.
extern "C" int cuda_host_run(cuda_host::Invoke kernel, void** arguments, cuda_host::Launch* launch) {
    using namespace cuda_host;
    static char signal_stack[kSignalStackBytes];
    cuda_host::launch = launch;
    begin_shared(false);
    launching = pthread_self();
    interrupt_wanted = false;
    ticks_since = 0;
    at_tick = interrupt_if_wanted;

    stack_t stack = {}, old_stack;
    stack.ss_sp = signal_stack;
    stack.ss_size = kSignalStackBytes;
    sigaltstack(&stack, &old_stack);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < kSignalCount; ++i) sigaction(kSignals[i], &action, &old_actions[i]);

    if (!sigsetjmp(before_launch, 1)) cuda_host_run_blocks(kernel, arguments);
    end_ticks();
    if (interrupt_wanted) note_fault(kind_of(SIGINT), "", {nullptr, 0});  // it came too late for a tick
    if (unsigned long long pc = launch->fault.pc; pc && !launch->fault.library[0]) note_instruction(pc);

    for (int i = 0; i < kSignalCount; ++i) sigaction(kSignals[i], &old_actions[i], nullptr);
    sigaltstack(&old_stack, nullptr);
    fflush(stdout);  // what the kernel printed
    return launch->fault.kind[0] != 0;
}
