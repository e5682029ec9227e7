// The fibers of a launch: made in chunks when they are needed, and kept for the next launch.

#include <stdlib.h>
#include <sys/mman.h>

#include "block.h"

namespace cuda_host {

Fiber main_fiber;

namespace {

// Each stack takes two of the 65,530 mappings that Linux grants a process: the stack, and the page that guards its end.
// ThreadSanitizer knows at most 8128 threads.
constexpr unsigned kMaxFibers = tell::kFiberIsThread ? 6 * 1024 : 16 * 1024;
constexpr unsigned kChunk = 1024, kMaxChunks = kMaxFibers / kChunk;
constexpr size_t kGuardBytes = 16 * 1024, kStep = kStackBytes + kGuardBytes;

struct Chunk {
    Fiber* fibers;
    char* memory;  // for each fiber a guard page, then its stack
};

Chunk chunks[kMaxChunks];
unsigned chunk_count, handed_out;
Fiber *first_free, *last_free;
void (*run_fiber)();

void add_chunk() {
    if (chunk_count == kMaxChunks) abort();  // blocks_with_fibers() is there to prevent it
    Chunk& chunk = chunks[chunk_count++];
    chunk.fibers = static_cast<Fiber*>(calloc(kChunk, sizeof(Fiber)));
    chunk.memory = static_cast<char*>(
        mmap(nullptr, kChunk * kStep, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0));
    if (!chunk.fibers || chunk.memory == MAP_FAILED) abort();
    for (size_t i = 0; i < kChunk; ++i) {
        mprotect(chunk.memory + i * kStep, kGuardBytes, PROT_NONE);
        chunk.fibers[i].stack = chunk.memory + i * kStep + kGuardBytes;
        chunk.fibers[i].stack_bytes = kStackBytes;
    }
}

}  // namespace

bool is_below_a_stack(const void* address) {
    for (unsigned i = 0; i < chunk_count; ++i) {
        size_t offset = static_cast<size_t>(static_cast<const char*>(address) - chunks[i].memory);
        if (offset < kChunk * kStep && offset % kStep < kGuardBytes) return true;
    }
    return false;
}

unsigned blocks_with_fibers() {
    unsigned room = kMaxFibers / thread_count;
    return room < kMaxBlocks ? room : kMaxBlocks;
}

// Before a launch: every fiber is free, also those that a fault has left in the middle.
void prepare_fibers(void (*run)()) {
    run_fiber = run;
    handed_out = 0;
    first_free = last_free = nullptr;
    if (!main_fiber.clocks.is_known()) main_fiber.clocks.of_this_thread();
}

// A free fiber, the one given back last, whose stack is warm. ThreadSanitizer gets the one given back first, and none
// of the block before: between neighbouring blocks nothing is ordered, and for it a fiber is a thread.
Fiber* take_fiber() {
    bool fresh = !first_free || (tell::kFiberIsThread && handed_out < 2 * thread_count);
    Fiber* fiber;
    if (fresh) {
        if (handed_out == chunk_count * kChunk) add_chunk();
        fiber = &chunks[handed_out / kChunk].fibers[handed_out % kChunk];
        ++handed_out;
    } else {
        fiber = first_free;
        first_free = fiber->next_free;
        if (!first_free) last_free = nullptr;
    }
    fiber->context.prepare(fiber->stack, run_fiber);
    fiber->clocks.begin_thread();
    return fiber;
}

void give_fiber(Fiber* fiber) {
    fiber->next_free = nullptr;
    if (!first_free) {
        first_free = last_free = fiber;
    } else if (tell::kFiberIsThread) {
        last_free->next_free = fiber;
        last_free = fiber;
    } else {
        fiber->next_free = first_free;
        first_free = fiber;
    }
}

void switch_fiber(Fiber& from, Fiber& to) {
    tell::leaving_for(to.stack, to.stack_bytes);
    to.clocks.enter();
    switch_context(from.context, to.context);
    tell::arrived(nullptr, nullptr);
}

}  // namespace cuda_host
