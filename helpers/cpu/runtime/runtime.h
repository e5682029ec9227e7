// What the parts of the runtime share.
#pragma once

#include "../include/cuda_host/runtime.h"
#include "launch.h"

namespace cuda_host {

constexpr unsigned kMaxBlocks = 132;  // under way at once: one a multiprocessor of an H200

extern Launch* launch;  // the one that runs now

// Writes down what went wrong and where the current thread stands. The first fault of a launch is kept.
void note_fault(const char* kind, const char* text, Where where);

void note_instruction(unsigned long long pc);  // where it went wrong, when only that is known

// Whether an address is in the guard page where a thread's stack ends.
bool is_below_a_stack(const void* address);

// ---- shared.cpp: the shared memory of one block ----------------------------------------------------------

struct SharedMemory;
void begin_shared(bool redzones);  // before the first block
SharedMemory* begin_block_shared();
void enter_block_shared(SharedMemory* shared);  // of a block that goes on
void* new_meetings(SharedMemory* shared);  // room for Meetings that ThreadSanitizer takes for new
void end_block_shared(SharedMemory* shared);
bool is_shared(const void* address);  // of the block that runs now

// ---- tick.cpp ------------------------------------------------------------------------------------------

void begin_ticks(void* kernel);
void hurry_ticks();
extern void (*at_tick)(unsigned long long pc);  // also called at each tick, unless it is null
void end_ticks();
bool has_ticks();
bool is_kernel_code(unsigned long long pc);
unsigned long long instruction(const void* context);  // that a signal has interrupted

// ---- spinning.cpp --------------------------------------------------------------------------------------

void begin_watching();
// From the tick, inside the code of a kernel. registers: a digest of what they hold.
void run_for_a_tick(unsigned long long pc, unsigned long long registers);

}  // namespace cuda_host

// Runs every block, until the first fault.
extern "C" void cuda_host_run_blocks(cuda_host::Invoke kernel, void** arguments);
