// What a compiled kernel calls: the scheduler, the barriers and the shared memory of runtime/*.cpp.
#pragma once

namespace cuda_host {

// The kernel's own file and line. As a default argument, {__builtin_FILE(), __builtin_LINE()} names the call.
struct Where {
    const char* file;
    int line;
};

enum class WarpOp { Sync, Shuffle, Ballot, MatchAny, Add, MinSigned, MaxSigned, MinUnsigned, MaxUnsigned, And, Or, Xor };

// One lane's part in a warp operation. It lives on the lane's own stack.
struct Exchange {
    unsigned long long value = 0;   // what this lane gives
    unsigned long long result = 0;  // what it gets once every lane of the mask has come
    int source = 0;                 // Shuffle: the lane whose value it wants
    unsigned lanes = 0;             // the lanes that took part
};

struct Vote {
    unsigned yes, threads;  // of the threads at the barrier: how many said yes, how many there were
};

// A declared __shared__ variable. Its address is valid in the block whose number it holds.
struct SharedSlot {
    const char* name;
    unsigned long long block = 0;
    void* address = nullptr;
};

// Waits until every live lane of `mask` has come to the same operation, then exchanges their values.
void warp_operation(const char* name, WarpOp op, unsigned mask, Exchange& mine, Where where);

// Waits until every live thread of the block has come to the same barrier.
Vote block_barrier(const char* name, bool yes, Where where);

// Lets the other threads of the block run.
void yield();

unsigned active_lanes();
void* shared_slot(SharedSlot& slot, unsigned long size, unsigned long alignment);
void* dynamic_shared();

// Ends the launch. `kind` becomes KernelFault.kind.
[[noreturn]] void fault(const char* kind, const char* text, Where where);

}  // namespace cuda_host
