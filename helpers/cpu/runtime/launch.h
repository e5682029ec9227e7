// One launch, as Python describes it and as it ended. Mirrored by the ctypes structures in ../launch.py.
#pragma once

namespace cuda_host {

constexpr unsigned kMaxThreads = 1024, kWarp = 32, kMaxWarps = kMaxThreads / kWarp;
constexpr unsigned kSharedBytes = 227 * 1024;  // of one multiprocessor of an H200
constexpr unsigned kMaxSlots = 64;

enum Order : int { Forward, Reverse, Random };

struct Fault {
    char kind[32];  // empty: the launch finished
    char text[512];
    char file[256];
    int line;
    unsigned block[3], thread[3];
    unsigned long long address;  // of an illegal access
    char library[512];           // where the line is not known: the instruction is in this file,
    unsigned long long pc;       // at this offset
};

struct SlotPlace {  // where a __shared__ variable of the current block lies
    char name[64];
    unsigned long long address, size;
};

struct Launch {
    unsigned grid[3], block[3];
    unsigned shared_bytes;
    int order;
    unsigned long long seed;
    int keep_shared;                 // 0: fill every block's shared memory with 0xCB
    int slot_count;
    SlotPlace slots[kMaxSlots];
    Fault fault;
    unsigned char shared[kSharedBytes];  // what the last block left in shared memory
};

using Invoke = void (*)(void** arguments);

}  // namespace cuda_host
