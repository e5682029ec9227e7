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

// The lanes of this one's warp that come to the same place before any of them goes on.
unsigned lanes_together(Where where);

// A thread that waits for another one's write lets the others run: at once, or when it has found the same value at
// the same address again and again. address: null for a fence. pc: the instruction, where the line is not known.
void spin(Where where);
void found_unchanged(const void* address, unsigned long long value, Where where, const void* pc = nullptr);
extern bool changed;  // set by what could end another thread's wait

// For ThreadSanitizer. change: sets `changed`, which would be a race of its own there.
void change();
void fence(Where where);
void begin_atomic(void* address);
void end_atomic();

void* shared_slot(SharedSlot& slot, unsigned long size, unsigned long alignment);
void* dynamic_shared();

// Ends the launch. `kind` becomes KernelFault.kind.
[[noreturn]] void fault(const char* kind, const char* text, Where where);

}  // namespace cuda_host
