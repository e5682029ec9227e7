// The scheduler: blocks one after another, one fiber a CUDA thread, one OS thread.
//
// A thread runs until it waits at a barrier or a warp operation. The last one to come sets the others free.
// When no thread can run and not all have finished, the block can never finish: that is reported.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../include/cuda_host/types.h"
#include "fiber.h"
#include "runtime.h"
#include "sanitizers.h"
#include "warp_values.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_host {

Launch* launch;

namespace {

struct Fiber {
    Context context;
    char* stack = nullptr;
    size_t stack_bytes = 0;
    void* tsan = nullptr;
    Fiber* next_free = nullptr;
};

struct Thread {
    uint3 index;
    Fiber* fiber;  // null before its first step
    // What it waits for; name is null while it can run.
    const char* name;
    Where where;
    WarpOp op;
    unsigned mask;
    Exchange* exchange;  // null at a barrier of the block
    void* meeting;
    bool yes;  // its vote at a barrier
    Vote vote;
};

struct Warp {
    unsigned live, ready, waiting;  // lanes; waiting: at a warp operation
    unsigned meetings;
    char meeting[64];  // addresses that stand for one __syncwarp each
};

Thread threads[kMaxThreads];
Warp warps[kMaxWarps];
unsigned ready_warps;          // warps with a ready lane
unsigned thread_count, live_threads, arrived_threads, yes_votes;
Thread* first_arrived;
unsigned long long barriers;   // completed so far
char barrier_meeting[2];       // even and odd barriers: see block_barrier

Thread* current;
unsigned current_warp;
Fiber main_fiber;
Fiber* free_fibers;
constexpr size_t kFiberSets = tell::kFiberIsThread ? 2 : 1, kGuardBytes = 16 * 1024, kFiberStep = kStackBytes + kGuardBytes;
char* fiber_memory;  // for each fiber a guard page, then its stack
Invoke kernel;
void** arguments;
unsigned long long random_state;

unsigned number(const Thread* thread) { return static_cast<unsigned>(thread - threads); }
unsigned warp_of(const Thread* thread) { return number(thread) / kWarp; }
unsigned lane_bit(const Thread* thread) { return 1u << number(thread) % kWarp; }

unsigned next_random() {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return static_cast<unsigned>(random_state * 2685821657736338717ull >> 32);
}

// One of the set bits, as the launch's order says.
unsigned choose(unsigned bits) {
    switch (launch->order) {
        case Forward: return __builtin_ctz(bits);
        case Reverse: return 31 - __builtin_clz(bits);
        default: {  // each set bit as likely as another
            for (unsigned skip = next_random() % __builtin_popcount(bits); skip > 0; --skip) bits &= bits - 1;
            return __builtin_ctz(bits);
        }
    }
}

void make_ready(Thread& thread) {
    thread.name = nullptr;
    warps[warp_of(&thread)].ready |= lane_bit(&thread);
    ready_warps |= 1u << warp_of(&thread);
}

void make_waiting(Thread& thread) {
    Warp& warp = warps[warp_of(&thread)];
    warp.ready &= ~lane_bit(&thread);
    if (!warp.ready) ready_warps &= ~(1u << warp_of(&thread));
}

// ---- fibers --------------------------------------------------------------------------------------------

void run_threads();

Fiber* take_fiber() {
    Fiber* fiber = free_fibers;
    free_fibers = fiber->next_free;
    fiber->context.prepare(fiber->stack, run_threads);
    return fiber;
}

void give_fiber(Fiber* fiber) {
    fiber->next_free = free_fibers;
    free_fibers = fiber;
}

// Fibers [first, first + kMaxThreads), made once. A guard page below each stack catches an overflow.
// ThreadSanitizer needs a fiber for each thread, and other ones in the next block: between neighbouring
// blocks nothing is ordered. So it gets two sets.
void prepare_fibers() {
    static Fiber* fibers;
    if (!fibers) {
        fibers = static_cast<Fiber*>(calloc(kFiberSets * kMaxThreads, sizeof(Fiber)));
        fiber_memory = static_cast<char*>(mmap(nullptr, kFiberSets * kMaxThreads * kFiberStep, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0));
        if (!fibers || fiber_memory == MAP_FAILED) abort();
        for (size_t i = 0; i < kFiberSets * kMaxThreads; ++i) {
            mprotect(fiber_memory + i * kFiberStep, kGuardBytes, PROT_NONE);
            fibers[i].stack = fiber_memory + i * kFiberStep + kGuardBytes;
            fibers[i].stack_bytes = kStackBytes;
        }
        main_fiber.tsan = tell::this_fiber();
    }
    static size_t set;
    set = (set + 1) % kFiberSets;
    free_fibers = nullptr;
    for (size_t i = kMaxThreads; i-- > 0;) give_fiber(&fibers[set * kMaxThreads + i]);
    if (tell::kFiberIsThread)
        for (size_t i = 0; i < thread_count; ++i) {
            threads[i].fiber = take_fiber();
            if (!threads[i].fiber->tsan) threads[i].fiber->tsan = tell::new_fiber();
        }
}

void become(Thread* thread) {
    current = thread;
    current_warp = warp_of(thread);
    threadIdx = thread->index;
}

void switch_fiber(Fiber& from, Fiber& to) {
    tell::leaving_for(to.stack, to.stack_bytes);
    tell::switch_to(to.tsan);
    switch_context(from.context, to.context);
    tell::arrived(nullptr, nullptr);
}

void resume(Fiber& from, Thread* thread) {
    become(thread);
    if (!thread->fiber) thread->fiber = take_fiber();
    if (thread->fiber != &from) switch_fiber(from, *thread->fiber);
}

// The next thread to run: one of the same warp while there is one, unless the order is random.
Thread* next_ready() {
    if (!ready_warps) return nullptr;
    bool stay = launch->order != Random && ready_warps >> current_warp & 1;
    unsigned warp = stay ? current_warp : choose(ready_warps);
    return &threads[warp * kWarp + choose(warps[warp].ready)];
}

[[noreturn]] void leave_block() {
    switch_fiber(*current->fiber, main_fiber);
    __builtin_unreachable();
}

// ---- reports -------------------------------------------------------------------------------------------

[[noreturn]] void stuck() {
    // Every live thread waits, and a full barrier would have opened: some lane waits for lanes that can't come.
    Thread* waiting = nullptr;
    for (unsigned i = 0; i < thread_count && !waiting; ++i)
        if (threads[i].name && threads[i].exchange) waiting = &threads[i];
    Warp& warp = warps[warp_of(waiting)];
    Thread* absent = nullptr;
    for (unsigned i = 0; i < kWarp && !absent; ++i) {
        Thread& other = threads[warp_of(waiting) * kWarp + i];
        bool here = other.exchange && other.op == waiting->op && other.mask == waiting->mask;
        if ((warp.live & waiting->mask) >> i & 1 && !here) absent = &other;
    }
    const char* kind = "deadlock";  // the other lane waits for the whole block, which waits for this one
    if (absent->exchange)
        kind = absent->where.line == waiting->where.line && absent->op == waiting->op ? "wrong mask" : "absent lanes";
    char text[sizeof launch->fault.text];
    int length = snprintf(text, sizeof text, "lane %u waits in %s (mask 0x%08x, line %d) for lane %u, which waits in %s (",
                          number(waiting) % kWarp, waiting->name, waiting->mask, waiting->where.line,
                          number(absent) % kWarp, absent->name);
    if (absent->exchange) length += snprintf(text + length, sizeof text - length, "mask 0x%08x, ", absent->mask);
    snprintf(text + length, sizeof text - length, "line %d)", absent->where.line);
    threadIdx = waiting->index;
    fault(kind, text, waiting->where);
}

[[noreturn]] void divergent(const Thread& one, const Thread& other) {
    char text[sizeof launch->fault.text];
    snprintf(text, sizeof text, "thread (%u, %u, %u) waits in %s at line %d, thread (%u, %u, %u) in %s at line %d",
             one.index.x, one.index.y, one.index.z, one.name, one.where.line, other.index.x, other.index.y,
             other.index.z, other.name, other.where.line);
    fault("divergent barrier", text, other.where);
}

// ---- waiting -------------------------------------------------------------------------------------------

// The current thread can't go on. Returns when it is its turn again.
void wait_for_turn() {
    Thread* me = current;
    Thread* next = next_ready();
    if (!next) stuck();
    resume(*me->fiber, next);
}

void open_barrier() {
    Vote vote = {yes_votes, arrived_threads};
    arrived_threads = yes_votes = 0;
    ++barriers;
    for (unsigned i = 0; i < thread_count; ++i)
        if (threads[i].name) {
            threads[i].vote = vote;
            make_ready(threads[i]);
        }
    current_warp = choose(ready_warps);  // where the search for the next thread starts
}

// Completes the operation that `thread` waits in, if every live lane of its mask is there.
bool complete(const Thread& thread) {
    unsigned w = warp_of(&thread), here = 0;
    Thread* lanes = &threads[w * kWarp];
    unsigned wanted = thread.mask & warps[w].live;
    if ((warps[w].waiting & wanted) != wanted) return false;
    for (unsigned rest = wanted; rest; rest &= rest - 1) {
        const Thread& other = lanes[__builtin_ctz(rest)];
        if (other.op == thread.op && other.mask == thread.mask) here |= rest & -rest;
    }
    if (here != wanted) return false;
    exchange_values(thread.op, wanted, [&](unsigned lane) -> Exchange& { return *lanes[lane].exchange; });
    warps[w].waiting &= ~wanted;
    for (unsigned rest = wanted; rest; rest &= rest - 1) {
        Thread& other = lanes[__builtin_ctz(rest)];
        other.exchange = nullptr;
        make_ready(other);
    }
    return true;
}

// The address whose releases and acquires order the threads of one __syncwarp, and of no other.
void* find_meeting(const Thread& thread) {
    Warp& warp = warps[warp_of(&thread)];
    for (unsigned rest = warp.waiting; rest; rest &= rest - 1) {
        Thread& other = threads[warp_of(&thread) * kWarp + __builtin_ctz(rest)];
        if (&other != &thread && other.op == WarpOp::Sync && other.mask == thread.mask) return other.meeting;
    }
    return &warp.meeting[warp.meetings++ % sizeof warp.meeting];
}

// Takes the current thread, whose kernel has returned, out of the block.
void finish_thread() {
    Warp& warp = warps[current_warp];
    make_waiting(*current);
    warp.live &= ~lane_bit(current);
    --live_threads;
    // Others may have waited for nobody but this one.
    for (unsigned rest = warp.waiting; rest; rest &= rest - 1)
        if (complete(threads[current_warp * kWarp + __builtin_ctz(rest)])) break;
    if (live_threads && arrived_threads == live_threads) open_barrier();
}

// What a fiber does: a thread that has finished hands its stack to one that hasn't started. A kernel without
// barriers thus runs all its threads on one warm stack.
void run_threads() {
    const void* old_stack = nullptr;
    size_t old_bytes = 0;
    tell::arrived(&old_stack, &old_bytes);
    if (!main_fiber.stack) {  // the first switch of all came from the main stack
        main_fiber.stack = static_cast<char*>(const_cast<void*>(old_stack));
        main_fiber.stack_bytes = old_bytes;
    }
    for (;;) {
        kernel(arguments);
        Fiber* mine = current->fiber;
        finish_thread();
        Thread* next = next_ready();
        if (!next) {
            if (live_threads) stuck();
            leave_block();
        }
        if (next->fiber || tell::kFiberIsThread) {
            give_fiber(mine);
            resume(*mine, next);
            __builtin_unreachable();
        }
        next->fiber = mine;
        become(next);
    }
}

void run_block(unsigned long long block) {
    blockIdx = {static_cast<unsigned>(block % gridDim.x), static_cast<unsigned>(block / gridDim.x % gridDim.y),
                static_cast<unsigned>(block / gridDim.x / gridDim.y)};
    live_threads = thread_count;
    arrived_threads = yes_votes = 0;
    ready_warps = 0;
    unsigned i = 0;
    for (unsigned z = 0; z < blockDim.z; ++z)
        for (unsigned y = 0; y < blockDim.y; ++y)
            for (unsigned x = 0; x < blockDim.x; ++x) {
                Thread& thread = threads[i++];
                thread.index = {x, y, z};
                thread.fiber = nullptr;
                thread.name = nullptr;
                thread.exchange = nullptr;
            }
    for (unsigned w = 0; w * kWarp < thread_count; ++w) {
        unsigned lanes = thread_count - w * kWarp;
        warps[w].live = warps[w].ready = lanes >= kWarp ? ~0u : (1u << lanes) - 1;
        warps[w].waiting = 0;
        ready_warps |= 1u << w;
    }
    if (tell::kFiberIsThread) prepare_fibers();
    begin_block_shared();
    current_warp = choose(ready_warps);
    resume(main_fiber, next_ready());
    give_fiber(current->fiber);  // the last one, which came back here
    end_block_shared();
}

unsigned long long gcd(unsigned long long a, unsigned long long b) { return b ? gcd(b, a % b) : a; }

}  // namespace

bool is_below_a_stack(const void* address) {
    size_t offset = static_cast<size_t>(static_cast<const char*>(address) - fiber_memory);
    return fiber_memory && offset < kFiberSets * kMaxThreads * kFiberStep && offset % kFiberStep < kGuardBytes;
}

void note_fault(const char* kind, const char* text, Where where) {
    Fault& fault = launch->fault;
    if (fault.kind[0]) return;
    strncpy(fault.text, text, sizeof fault.text - 1);
    if (where.file) strncpy(fault.file, where.file, sizeof fault.file - 1);
    fault.line = where.line;
    const uint3 places[2] = {blockIdx, threadIdx};
    memcpy(fault.block, places, sizeof places);
    strncpy(fault.kind, kind, sizeof fault.kind - 1);
}

// ---- what kernels call ---------------------------------------------------------------------------------

Vote block_barrier(const char* name, bool yes, Where where) {
    Thread& me = *current;
    me.name = name;
    me.where = where;
    if (arrived_threads == 0)
        first_arrived = &me;
    else if (first_arrived->where.line != where.line || strcmp(first_arrived->name, name))
        divergent(*first_arrived, me);
    ++arrived_threads;
    yes_votes += yes;
    // Two addresses in turn: a thread that runs ahead to the next barrier must not be taken for one that
    // came to this barrier.
    void* meeting = &barrier_meeting[barriers % 2];
    tell::release(meeting);
    make_waiting(me);
    if (arrived_threads == live_threads) open_barrier();
    wait_for_turn();
    tell::acquire(meeting);
    return me.vote;
}

void warp_operation(const char* name, WarpOp op, unsigned mask, Exchange& mine, Where where) {
    Thread& me = *current;
    if (!(mask & lane_bit(&me))) {
        char text[128];
        snprintf(text, sizeof text, "lane %u calls %s with mask 0x%08x, which leaves it out", number(&me) % kWarp, name, mask);
        fault("wrong mask", text, where);
    }
    me.name = name;
    me.where = where;
    me.op = op;
    me.mask = mask;
    me.exchange = &mine;
    if (op == WarpOp::Sync && tell::kFiberIsThread) {
        me.meeting = find_meeting(me);
        tell::release(me.meeting);
    }
    warps[current_warp].waiting |= lane_bit(&me);
    make_waiting(me);
    if (!complete(me)) wait_for_turn();
    if (op == WarpOp::Sync && tell::kFiberIsThread) tell::acquire(me.meeting);
}

void yield() {
    Thread& me = *current;
    make_waiting(me);
    Thread* next = next_ready();
    make_ready(me);
    if (next) resume(*me.fiber, next);
}

// The lanes that could run beside this one: those that wait nowhere.
unsigned active_lanes() { return warps[current_warp].ready; }

void fault(const char* kind, const char* text, Where where) {
    note_fault(kind, text, where);
    leave_block();
}

}  // namespace cuda_host

extern "C" void cuda_host_run_blocks(cuda_host::Invoke kernel_entry, void** kernel_arguments) {
    using namespace cuda_host;
    kernel = kernel_entry;
    arguments = kernel_arguments;
    gridDim = dim3(launch->grid[0], launch->grid[1], launch->grid[2]);
    blockDim = dim3(launch->block[0], launch->block[1], launch->block[2]);
    thread_count = blockDim.x * blockDim.y * blockDim.z;
    random_state = launch->seed * 0x9e3779b97f4a7c15ull | 1;
    if (!tell::kFiberIsThread) prepare_fibers();

    // Blocks in the order too. Random: a stride without a common divisor visits each block once.
    unsigned long long blocks = 1ull * gridDim.x * gridDim.y * gridDim.z, stride = 1, block = 0;
    if (launch->order == Reverse) stride = block = blocks - 1;
    if (launch->order == Random) {
        block = next_random() % blocks;
        do stride = 1 + next_random() % blocks;
        while (gcd(stride, blocks) != 1);
    }
    for (unsigned long long done = 0; done < blocks && !launch->fault.kind[0]; ++done) {
        run_block(block);
        block = (block + stride) % blocks;
    }
}
