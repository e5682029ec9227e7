// The scheduler: one OS thread, one fiber a CUDA thread, blocks one after another while none waits for another.
//
// A thread runs until it waits at a barrier or a warp operation, or is seen to spin (spinning.cpp). The last one to
// come to a barrier sets the others free. A block in which all do nothing but spin makes room for the next block, and
// the blocks under way then take turns. When no thread can run and not all have finished, the block can never finish:
// that is reported (waiting.cpp).

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "warp_values.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_host {

Launch* launch;
Block* block;
Thread* current;
unsigned thread_count;
unsigned long long switches;
bool changed;

namespace {

unsigned current_warp;
Invoke kernel;
void** arguments;
unsigned long long random_state;

Block* blocks[kMaxBlocks];  // those under way come first, the rest are kept for later
unsigned block_count;

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

bool same(const char* one, const char* other) { return one == other || !strcmp(one, other); }

void resume(Fiber& from, Thread* thread) {
    ++switches;
    current = thread;
    current_warp = warp_of(thread);
    threadIdx = thread->index;
    if (!thread->fiber) thread->fiber = take_fiber();
    if (thread->fiber != &from) switch_fiber(from, *thread->fiber);
}

[[noreturn]] void leave_block() {
    switch_fiber(*current->fiber, main_fiber);
    __builtin_unreachable();
}

// No lane of the warp can come any more: those that have come to the same __activemask are together there.
void end_gathering(Warp& warp) {
    Thread* lanes = &block->threads[current_warp * kWarp];
    while (warp.gathering) {
        const Where site = lanes[__builtin_ctz(warp.gathering)].where;
        unsigned together = 0;
        for (unsigned rest = warp.gathering; rest; rest &= rest - 1) {
            const Where& other = lanes[__builtin_ctz(rest)].where;
            if (other.line == site.line && same(other.file, site.file)) together |= rest & -rest;
        }
        warp.gathering &= ~together;
        for (unsigned rest = together; rest; rest &= rest - 1) {
            lanes[__builtin_ctz(rest)].mask = together;
            make_ready(lanes[__builtin_ctz(rest)]);
        }
    }
    changed = true;
}

// The next thread to run: one of the same warp while there is one, unless the order is random.
Thread* next_ready() {
    Warp& mine = block->warps[current_warp];
    if (mine.gathering && !mine.ready) end_gathering(mine);
    if (!block->ready_warps) return nullptr;
    bool stay = launch->order != Random && block->ready_warps >> current_warp & 1;
    unsigned warp = stay ? current_warp : choose(block->ready_warps);
    return &block->threads[warp * kWarp + choose(block->warps[warp].ready)];
}

// The next thread when the current one can't go on or has ended; null when it is another block's turn.
Thread* next_thread() {
    if (Thread* next = next_ready()) return next;
    if (!block->resting_threads) stuck();
    return next_resting();
}

void open_barrier() {
    Vote vote = {block->yes_votes, block->arrived_threads};
    block->arrived_threads = block->yes_votes = 0;
    ++block->barriers;
    changed = true;
    for (unsigned i = 0; i < thread_count; ++i)
        if (block->threads[i].name) {
            block->threads[i].vote = vote;
            make_ready(block->threads[i]);
        }
    current_warp = choose(block->ready_warps);  // where the search for the next thread starts
}

// Completes the operation that `thread` waits in, if every live lane of its mask is there.
bool complete(const Thread& thread) {
    unsigned w = warp_of(&thread), here = 0;
    Thread* lanes = &block->threads[w * kWarp];
    Warp& warp = block->warps[w];
    unsigned wanted = thread.mask & warp.live;
    if ((warp.waiting & wanted) != wanted) return false;
    for (unsigned rest = wanted; rest; rest &= rest - 1) {
        const Thread& other = lanes[__builtin_ctz(rest)];
        if (other.op == thread.op && other.mask == thread.mask) here |= rest & -rest;
    }
    if (here != wanted) return false;
    exchange_values(thread.op, wanted, [&](unsigned lane) -> Exchange& { return *lanes[lane].exchange; });
    warp.waiting &= ~wanted;
    for (unsigned rest = wanted; rest; rest &= rest - 1) {
        Thread& other = lanes[__builtin_ctz(rest)];
        other.exchange = nullptr;
        make_ready(other);
    }
    changed = true;
    return true;
}

// The addresses whose releases and acquires order the threads of one __syncwarp, and of no other.
char* find_meeting(const Thread& thread) {
    unsigned w = warp_of(&thread);
    Warp& warp = block->warps[w];
    for (unsigned rest = warp.waiting; rest; rest &= rest - 1) {
        Thread& other = block->threads[w * kWarp + __builtin_ctz(rest)];
        if (&other != &thread && other.op == WarpOp::Sync && other.mask == thread.mask)
            return static_cast<char*>(other.meeting);
    }
    return &block->meetings->warp[w][0][warp.meetings++ % sizeof block->meetings->warp[w][0]];
}

// What a thread has done comes before what the others do after the same meeting; so does what its fences cover.
void come_to(char* meeting, char* for_fences) {
    tell::release(meeting);
    if (block->fenced) current->fiber->clocks.publish(for_fences);
}
void go_from(char* meeting, char* for_fences) {
    tell::acquire(meeting);
    if (block->fenced) current->fiber->clocks.pass_on(for_fences);
}

// Takes the current thread, whose kernel has returned, out of the block.
void finish_thread() {
    Warp& warp = block->warps[current_warp];
    make_waiting(*current);
    warp.live &= ~lane_bit(current);
    --block->live_threads;
    changed = true;
    // Others may have waited for nobody but this one.
    for (unsigned rest = warp.waiting; rest; rest &= rest - 1)
        if (complete(block->threads[current_warp * kWarp + __builtin_ctz(rest)])) break;
    if (block->live_threads && block->arrived_threads == block->live_threads) open_barrier();
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
        Thread* next = block->live_threads ? next_thread() : nullptr;
        if (!next) {
            give_fiber(mine);
            leave_block();
        }
        if (next->fiber || tell::kFiberIsThread) {
            give_fiber(mine);
            resume(*mine, next);
            __builtin_unreachable();
        }
        next->fiber = mine;
        resume(*mine, next);
    }
}

// ---- blocks --------------------------------------------------------------------------------------------

unsigned long long gcd(unsigned long long a, unsigned long long b) { return b ? gcd(b, a % b) : a; }

// The numbers of the blocks in the launch's order. Random: a stride without a common divisor visits each once.
struct Blocks {
    unsigned long long count = 1ull * gridDim.x * gridDim.y * gridDim.z, left = count, stride = 1, next = 0;

    Blocks() {
        if (launch->order == Reverse) stride = next = count - 1;
        if (launch->order == Random) {
            next = next_random() % count;
            do stride = 1 + next_random() % count;
            while (gcd(stride, count) != 1);
        }
    }
    unsigned long long take() {
        unsigned long long taken = next;
        next = (next + stride) % count;
        --left;
        return taken;
    }
};

void start_block(unsigned long long number) {
    Block*& place = blocks[block_count++];
    if (!place) place = static_cast<Block*>(calloc(1, sizeof(Block)));
    if (!place) abort();
    block = place;
    block->index = {static_cast<unsigned>(number % gridDim.x), static_cast<unsigned>(number / gridDim.x % gridDim.y),
                    static_cast<unsigned>(number / gridDim.x / gridDim.y)};
    block->live_threads = thread_count;
    block->arrived_threads = block->yes_votes = block->resting_threads = block->turns = block->cursor = 0;
    block->ready_warps = 0;
    block->fenced = block->downwards = false;
    unsigned i = 0;
    for (unsigned z = 0; z < blockDim.z; ++z)
        for (unsigned y = 0; y < blockDim.y; ++y)
            for (unsigned x = 0; x < blockDim.x; ++x) {
                Thread& thread = block->threads[i];
                thread.index = {x, y, z};
                thread.number = i++;
                thread.fiber = nullptr;
                thread.name = nullptr;
                thread.exchange = nullptr;
            }
    for (unsigned w = 0; w * kWarp < thread_count; ++w) {
        unsigned lanes = thread_count - w * kWarp;
        Warp& warp = block->warps[w];
        warp.live = warp.ready = lanes >= kWarp ? ~0u : (1u << lanes) - 1;
        warp.waiting = warp.gathering = warp.resting = 0;
        block->ready_warps |= 1u << w;
    }
    changed = true;
    blockIdx = block->index;
    block->shared = begin_block_shared();
    block->meetings = static_cast<Meetings*>(new_meetings(block->shared));
    current_warp = choose(block->ready_warps);
}

void end_block(unsigned place) {
    end_block_shared(block->shared);
    blocks[place] = blocks[--block_count];
    blocks[block_count] = block;
}

void run_blocks() {
    Blocks grid;
    unsigned place = 0;  // of the block whose turn it is
    bool make_room = true;
    while ((grid.left || block_count) && !launch->fault.kind[0]) {
        if (make_room && grid.left && block_count < blocks_with_fibers()) {
            place = block_count;
            start_block(grid.take());
        } else {
            place = (place + 1) % block_count;
            block = blocks[place];
            blockIdx = block->index;
            enter_block_shared(block->shared);
            current_warp = 0;
        }
        Thread* next = next_ready();
        resume(main_fiber, next ? next : next_resting());
        // The block has ended, or a fault has ended it, or its threads do nothing but spin.
        if (launch->fault.kind[0]) return;
        make_room = !block->live_threads ? block_count == 1 : makes_room(*block);
        if (!block->live_threads) end_block(place);
        if (block_count && will_spin_for_ever(blocks, block_count)) note_endless_spinning(blocks, block_count, grid.left);
    }
}

}  // namespace

void make_ready(Thread& thread) {
    thread.name = nullptr;
    block->warps[warp_of(&thread)].ready |= lane_bit(&thread);
    block->ready_warps |= 1u << warp_of(&thread);
}

void make_waiting(Thread& thread) {
    Warp& warp = block->warps[warp_of(&thread)];
    warp.ready &= ~lane_bit(&thread);
    if (!warp.ready) block->ready_warps &= ~(1u << warp_of(&thread));
}

void wait_for_turn() {
    Thread* me = current;
    if (Thread* next = next_thread())
        resume(*me->fiber, next);
    else
        switch_fiber(*me->fiber, main_fiber);
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

void note_instruction(unsigned long long pc) {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void*>(pc), &info) || !info.dli_fname) return;
    strncpy(launch->fault.library, info.dli_fname, sizeof launch->fault.library - 1);
    launch->fault.pc = pc - reinterpret_cast<unsigned long long>(info.dli_fbase);
}

// ---- what kernels call ---------------------------------------------------------------------------------

Vote block_barrier(const char* name, bool yes, Where where) {
    Thread& me = *current;
    me.name = name;
    me.where = where;
    if (block->arrived_threads == 0)
        block->first_arrived = &me;
    else if (block->first_arrived->where.line != where.line || !same(block->first_arrived->name, name))
        divergent(*block->first_arrived, me);
    ++block->arrived_threads;
    block->yes_votes += yes;
    // Two pairs of addresses in turn: a thread that runs ahead to the next barrier must not be taken for one that
    // came to this barrier.
    char* meeting = block->meetings->barrier[block->barriers % 2];
    come_to(meeting, meeting + 1);
    make_waiting(me);
    if (block->arrived_threads == block->live_threads) open_barrier();
    wait_for_turn();
    go_from(meeting, meeting + 1);
    return me.vote;
}

void warp_operation(const char* name, WarpOp op, unsigned mask, Exchange& mine, Where where) {
    Thread& me = *current;
    if (!(mask & lane_bit(&me))) {
        char text[128];
        snprintf(text, sizeof text, "lane %u calls %s with mask 0x%08x, which leaves it out", me.number % kWarp, name, mask);
        fault("wrong mask", text, where);
    }
    me.name = name;
    me.where = where;
    me.op = op;
    me.mask = mask;
    me.exchange = &mine;
    char* meeting = nullptr;
    if (op == WarpOp::Sync && tell::kFiberIsThread) {
        me.meeting = meeting = find_meeting(me);
        come_to(meeting, meeting + sizeof block->meetings->warp[0][0]);
    }
    block->warps[current_warp].waiting |= lane_bit(&me);
    make_waiting(me);
    if (!complete(me)) wait_for_turn();
    if (meeting) go_from(meeting, meeting + sizeof block->meetings->warp[0][0]);
}

unsigned lanes_together(Where where) {
    Thread& me = *current;
    me.name = "__activemask";
    me.where = where;
    block->warps[current_warp].gathering |= lane_bit(&me);
    make_waiting(me);
    wait_for_turn();
    return me.mask;
}

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
    block_count = 0;
    prepare_fibers(run_threads);
    begin_ticks(reinterpret_cast<void*>(kernel));
    run_blocks();
    end_ticks();
}
