// Threads that spin: that wait, in a loop of their own, for a value which another thread will write.
//
// Such a thread must let the others run. It gives itself away by calls that change nothing (a __nanosleep; again and
// again the same fence, or an atomic that finds the same value), or by running for long without a stop (the tick,
// tick.cpp). It then rests: it goes on when all threads of its block wait or rest, and they take turns.
//
// A thread is sure to spin when its calls gave it away, or when the tick has found it twice with the same content in
// every register: a loop that computes has another one each time. When all are sure, and nothing has changed for a
// second of this process's time, nothing ever will.

#include <string.h>
#include <time.h>

#include "block.h"

namespace cuda_host {

namespace {

constexpr unsigned kRepeats = 16;      // calls without effect that make a spin
constexpr unsigned kTurnsUnsure = 64;  // turns after which a block makes room for the next one anyway
constexpr double kPatience = 1.0;      // seconds

// What the current thread has found in memory since it was last resumed.
struct Found {
    const void* address;
    unsigned long long value;
};
Found found[8];
unsigned long long found_since;  // the count of switches
unsigned repeats;

// How the tick sees it.
constexpr unsigned kLong = 20;  // ticks without a stop, before the first spin of a launch
unsigned ticks;
unsigned long long switches_at_tick;
bool hurried;  // a thread of this launch has run for long: from now on a tick without a stop is enough

// How many times anything has changed, as far as somebody has looked.
unsigned long long epoch() {
    static unsigned long long changes;
    changes += changed;
    changed = false;
    return changes;
}

double seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void rest(Thread& me) {
    Warp& warp = block->warps[warp_of(&me)];
    make_waiting(me);
    warp.resting |= lane_bit(&me);
    ++block->resting_threads;
    wait_for_turn();
}

// What is known of the current thread's spinning; nothing, when something has changed.
Spin& spin_of(Thread& me) {
    Spin& spin = block->spins[me.number];
    if (spin.epoch != epoch()) spin = {epoch(), false, {nullptr, 0}, 0, 0, 0};
    return spin;
}

bool is_sure_to_spin(const Block& block) {
    for (unsigned w = 0; w * kWarp < thread_count; ++w)
        for (unsigned rest = block.warps[w].resting; rest; rest &= rest - 1) {
            const Spin& spin = block.spins[w * kWarp + __builtin_ctz(rest)];
            if (spin.epoch != epoch() || !spin.sure) return false;
        }
    return true;
}

}  // namespace

void begin_watching() {
    ticks = 0;
    hurried = false;
}

Thread* next_resting() {
    while (block->resting_threads) {
        unsigned at = block->downwards ? thread_count - 1 - block->cursor : block->cursor;
        if (block->cursor++ == thread_count) {
            // A chain of threads that wait for one another is walked in either direction.
            block->downwards = !block->downwards;
            block->cursor = 0;
            ++block->turns;
            return nullptr;
        }
        Warp& warp = block->warps[at / kWarp];
        unsigned bit = 1u << at % kWarp;
        if (warp.resting & bit) {
            warp.resting &= ~bit;
            --block->resting_threads;
            make_ready(block->threads[at]);
            return &block->threads[at];
        }
    }
    return nullptr;
}

bool makes_room(const Block& block) { return block.turns >= kTurnsUnsure || is_sure_to_spin(block); }

bool will_spin_for_ever(Block* const* under_way, unsigned count) {
    static unsigned long long last;
    static double since;
    double now = seconds();
    if (last != epoch()) {
        last = epoch();
        since = now;
    }
    if (now - since < kPatience) return false;
    for (unsigned i = 0; i < count; ++i)
        if (!is_sure_to_spin(*under_way[i])) return false;
    return true;
}

void run_for_a_tick(unsigned long long pc, unsigned long long registers) {
    if (switches != switches_at_tick) {
        switches_at_tick = switches;
        ticks = 0;
    } else if (++ticks >= (hurried ? 1 : kLong)) {
        if (!hurried) hurry_ticks();
        hurried = true;
        Spin& spin = spin_of(*current);
        if (spin.samples && registers == spin.registers) spin.sure = true;
        // The sample to compare with moves on, ever more rarely: it ends up on the loop, wherever that began.
        if (!(spin.samples & (spin.samples - 1))) spin.registers = registers;
        ++spin.samples;
        spin.where = {nullptr, 0};
        spin.pc = pc;
        rest(*current);
    }
}

// ---- what kernels call ---------------------------------------------------------------------------------

void spin(Where where) {
    Spin& spin = spin_of(*current);
    spin.sure = true;
    spin.where = where;
    rest(*current);
}

void found_unchanged(const void* address, unsigned long long value, Where where, const void* pc) {
    if (found_since != switches) {
        found_since = switches;
        repeats = 0;
        memset(found, 0, sizeof found);
    }
    Found& before = found[reinterpret_cast<unsigned long long>(address) / 4 % 8];
    if (!address || (before.address == address && before.value == value)) {
        if (++repeats < kRepeats) return;
        spin_of(*current).pc = reinterpret_cast<unsigned long long>(pc);
        spin(where);
    } else {
        before = {address, value};
    }
}

}  // namespace cuda_host
