// The tick: a signal that looks, every few milliseconds, whether the same thread still runs (spinning.cpp).
//
// It may switch to another thread only while the kernel's own code runs, which a look at the interrupted instruction
// tells: never inside the runtime, the C library or a sanitizer. The thread then goes on from inside its handler.
// On Linux only. Under ThreadSanitizer, which holds signals back, volatile reads are counted instead (order.cpp).

#include "block.h"

#if defined(__linux__)
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#endif

namespace cuda_host {

#if defined(__linux__)

void (*at_tick)(unsigned long long pc);

// glibc's own sigaction. Sanitizers replace the other by one that clears what they know of the interrupted code.
extern "C" int __sigaction(int, const struct sigaction*, struct sigaction*) __attribute__((weak));

namespace {

constexpr int kSignal = SIGVTALRM;
constexpr long kTick = 5'000'000, kHurriedTick = 100'000;  // nanoseconds

struct Code {
    unsigned long long start, end;
};
Code code;  // of the library that the running kernel is in
bool ticking;
int timer;
struct sigaction old_action;

void set_handler(const struct sigaction* action, struct sigaction* old) {
    (__sigaction ? __sigaction : sigaction)(kSignal, action, old);
}

// The timer's system calls, because C libraries before glibc 2.34 keep them in another library.
void set_timer(long nanoseconds) {
    itimerspec every = {{0, nanoseconds}, {0, nanoseconds}};
    syscall(SYS_timer_settime, timer, 0, &every, nullptr);
}

unsigned long long digest(const void* start, size_t bytes, unsigned long long seed) {  // FNV-1a, by words
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        unsigned long long word;
        memcpy(&word, static_cast<const char*>(start) + i, 8);
        seed = (seed ^ word) * 0x100000001b3ull;
    }
    return seed;
}

unsigned long long registers(const ucontext_t& context) {
    const auto& machine = context.uc_mcontext;
#if defined(__x86_64__)
    unsigned long long sum = digest(machine.gregs, (REG_RIP + 1) * sizeof machine.gregs[0], 0xcbf29ce484222325ull);
    return digest(machine.fpregs->_xmm, sizeof machine.fpregs->_xmm, sum);
#elif defined(__aarch64__)
    constexpr size_t kVectors = 16 + 32 * 16;  // of the first record behind: its head, then 32 registers
    return digest(machine.__reserved, kVectors, digest(machine.regs, sizeof machine.regs + 16, 0xcbf29ce484222325ull));
#else
    static unsigned long long different;  // no loop is ever known to do the same thing again
    return ++different;
#endif
}

CUDA_HOST_UNCHECKED void on_tick(int, siginfo_t*, void* context) {
    tell::Interrupted interrupted(static_cast<ucontext_t*>(context));
    unsigned long long pc = instruction(context);
    if (at_tick) at_tick(pc);
    if (is_kernel_code(pc)) run_for_a_tick(pc, registers(*static_cast<ucontext_t*>(context)));
}

int find_code(dl_phdr_info* library, size_t, void* kernel) {
    auto wanted = reinterpret_cast<unsigned long long>(kernel);
    for (int i = 0; i < library->dlpi_phnum; ++i) {
        const auto& part = library->dlpi_phdr[i];
        unsigned long long start = library->dlpi_addr + part.p_vaddr, end = start + part.p_memsz;
        if (part.p_type == PT_LOAD && part.p_flags & PF_X && start <= wanted && wanted < end) {
            code = {start, end};
            return 1;
        }
    }
    return 0;
}

}  // namespace

void begin_ticks(void* kernel) {
    begin_watching();
    if (!is_kernel_code(reinterpret_cast<unsigned long long>(kernel))) dl_iterate_phdr(find_code, kernel);
    if (tell::kFiberIsThread) return;
    struct sigaction action = {};
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;  // NODEFER: the next thread must be seen too
    set_handler(&action, &old_action);
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kSignal;
    event._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
    ticking = syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0;
    if (ticking)
        set_timer(kTick);
    else
        set_handler(&old_action, nullptr);
}

void hurry_ticks() { set_timer(kHurriedTick); }

void end_ticks() {
    if (!ticking) return;
    ticking = false;
    syscall(SYS_timer_delete, timer);
    set_handler(&old_action, nullptr);
}

bool has_ticks() { return ticking; }

bool is_kernel_code(unsigned long long pc) { return code.start <= pc && pc < code.end; }

unsigned long long instruction(const void* context) {
#if defined(__x86_64__)
    return static_cast<unsigned long long>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return static_cast<const ucontext_t*>(context)->uc_mcontext.pc;
#else
    return 0;
#endif
}

#else

void (*at_tick)(unsigned long long pc);
void begin_ticks(void*) { begin_watching(); }
void hurry_ticks() {}
void end_ticks() {}
bool has_ticks() { return false; }
bool is_kernel_code(unsigned long long) { return true; }
unsigned long long instruction(const void*) { return 0; }

#endif

}  // namespace cuda_host
