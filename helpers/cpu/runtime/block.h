// What the scheduler knows of fibers, threads, warps and blocks. For scheduler.cpp and the files beside it.
#pragma once

#include "../include/cuda_host/types.h"
#include "fiber.h"
#include "runtime.h"
#include "sanitizers.h"

#pragma GCC visibility push(hidden)  // kernels see none of it, and calls get shorter
namespace cuda_host {

struct Fiber {
    Context context;
    char* stack = nullptr;
    size_t stack_bytes = 0;
    tell::FiberClocks clocks;
    Fiber* next_free = nullptr;
};

// What a thread that spins was last seen doing. Forgotten when anything changes: see spinning.cpp.
struct Spin {
    unsigned long long epoch;  // in which this was seen: another one begins when anything changes
    bool sure;                 // it does the same thing over and over
    Where where;               // of the call that gave it away, or
    unsigned long long pc;     // the instruction at which the tick found it
    unsigned samples;
    unsigned long long registers;  // a digest of them, at one of the samples
};

struct Thread {
    uint3 index;
    unsigned number;
    Fiber* fiber;  // null before its first step
    // What it waits for; name is null while it can run.
    const char* name;
    Where where;
    WarpOp op;
    unsigned mask;  // at an __activemask: the lanes that came together
    Exchange* exchange;  // null but at a warp operation
    void* meeting;
    Vote vote;
};

struct Warp {
    // Lanes. ready: can run; waiting: at a warp operation; gathering: at an __activemask; resting: can run, and spin.
    unsigned live, ready, waiting, gathering, resting;
    unsigned meetings;
};

// Addresses that stand for a barrier or one __syncwarp each, in pairs: see come_to. New ones in each block.
struct Meetings {
    char barrier[2][2];  // even and odd barriers: see block_barrier
    char warp[kMaxWarps][2][64];
};

struct Block {
    uint3 index;
    unsigned ready_warps;  // warps with a ready lane
    unsigned live_threads, arrived_threads, yes_votes, resting_threads;
    Thread* first_arrived;
    unsigned long long barriers;  // completed so far
    bool fenced;                  // a thread has called __threadfence
    // Where the round of the spinning threads stands.
    unsigned cursor;
    bool downwards;
    unsigned turns;  // of its spinning threads, so far
    SharedMemory* shared;
    Meetings* meetings;
    Thread threads[kMaxThreads];
    Spin spins[kMaxThreads];
    Warp warps[kMaxWarps];
};

// ---- scheduler.cpp -------------------------------------------------------------------------------------

extern Block* block;  // the one that runs now
extern Thread* current;
extern unsigned thread_count;  // of a block
extern unsigned long long switches;  // from thread to thread, so far

inline unsigned warp_of(const Thread* thread) { return thread->number / kWarp; }
inline unsigned lane_bit(const Thread* thread) { return 1u << thread->number % kWarp; }

void make_ready(Thread& thread);
void make_waiting(Thread& thread);
void wait_for_turn();  // the current thread can't go on; returns when it is its turn again

// ---- fibers.cpp ----------------------------------------------------------------------------------------

extern Fiber main_fiber;  // the one that runs no CUDA thread
void prepare_fibers(void (*run)());
Fiber* take_fiber();
void give_fiber(Fiber* fiber);
void switch_fiber(Fiber& from, Fiber& to);
unsigned blocks_with_fibers();  // how many blocks of this launch can be under way at once

// ---- spinning.cpp --------------------------------------------------------------------------------------

Thread* next_resting();  // null when none spins, or when the block has had its turn
bool makes_room(const Block& block);  // for one that hasn't started
bool will_spin_for_ever(Block* const* under_way, unsigned count);

// ---- waiting.cpp: reports of threads that wait for ever --------------------------------------------------

[[noreturn]] void stuck();
[[noreturn]] void divergent(const Thread& one, const Thread& other);
void note_endless_spinning(Block* const* under_way, unsigned count, bool others_are_left);

}  // namespace cuda_host
#pragma GCC visibility pop
