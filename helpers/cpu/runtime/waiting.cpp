// Reports of threads that wait for ever.

#include <stdio.h>

#include "block.h"

namespace cuda_host {

void stuck() {
    // Every live thread waits, and a full barrier would have opened: some lane waits for lanes that can't come.
    Thread* threads = block->threads;
    Thread* waiting = nullptr;
    for (unsigned i = 0; i < thread_count && !waiting; ++i)
        if (threads[i].name && threads[i].exchange) waiting = &threads[i];
    Warp& warp = block->warps[warp_of(waiting)];
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
                          waiting->number % kWarp, waiting->name, waiting->mask, waiting->where.line,
                          absent->number % kWarp, absent->name);
    if (absent->exchange) length += snprintf(text + length, sizeof text - length, "mask 0x%08x, ", absent->mask);
    snprintf(text + length, sizeof text - length, "line %d)", absent->where.line);
    threadIdx = waiting->index;
    fault(kind, text, waiting->where);
}

void divergent(const Thread& one, const Thread& other) {
    char text[sizeof launch->fault.text];
    snprintf(text, sizeof text, "thread (%u, %u, %u) waits in %s at line %d, thread (%u, %u, %u) in %s at line %d",
             one.index.x, one.index.y, one.index.z, one.name, one.where.line, other.index.x, other.index.y,
             other.index.z, other.name, other.where.line);
    fault("divergent barrier", text, other.where);
}

// Of the blocks under way, every live thread waits or spins, and nothing has changed for long.
void note_endless_spinning(Block* const* under_way, unsigned count, bool others_are_left) {
    const Spin* spinning = nullptr;
    unsigned spin = 0, wait = 0;
    char waits[256] = "";
    for (unsigned b = 0; b < count; ++b)
        for (unsigned i = 0; i < thread_count; ++i) {
            const Block& at = *under_way[b];
            const Thread& thread = at.threads[i];
            unsigned warp = i / kWarp, bit = 1u << i % kWarp;
            if (!(at.warps[warp].live & bit)) continue;
            if (at.warps[warp].resting & bit) {
                ++spin;
                if (spinning) continue;
                spinning = &at.spins[i];
                blockIdx = at.index;
                threadIdx = thread.index;
            } else if (!wait++) {
                snprintf(waits, sizeof waits, ", %%u wait, the first, thread (%u, %u, %u) of block (%u, %u, %u), in %s at line %d",
                         thread.index.x, thread.index.y, thread.index.z, at.index.x, at.index.y, at.index.z, thread.name,
                         thread.where.line);
            }
        }
    char text[sizeof launch->fault.text];
    int length = snprintf(text, sizeof text, "%u thread%s, this one first, spin%s on a value that no running thread changes",
                          spin, spin == 1 ? "" : "s", spin == 1 ? "s" : "");
    length += snprintf(text + length, sizeof text - length, waits, wait);
    if (others_are_left)
        snprintf(text + length, sizeof text - length,
                 "; %u blocks are under way, as many as there is room for, and the next one can't start before one ends", count);
    note_fault(others_are_left ? "absent block" : "endless spin", text, spinning->where);
    if (!spinning->where.line) note_instruction(spinning->pc);
}

}  // namespace cuda_host
