// What the parts of the runtime share.
#pragma once

#include "../include/cuda_host/runtime.h"
#include "launch.h"

namespace cuda_host {

extern Launch* launch;  // the one that runs now

// Writes down what went wrong and where the current thread stands. The first fault of a launch is kept.
void note_fault(const char* kind, const char* text, Where where);

// Whether an address is in the guard page where a thread's stack ends.
bool is_below_a_stack(const void* address);

void begin_shared(bool redzones);  // before the first block
void begin_block_shared();
void end_block_shared();

}  // namespace cuda_host

// Runs every block, until the first fault.
extern "C" void cuda_host_run_blocks(cuda_host::Invoke kernel, void** arguments);
