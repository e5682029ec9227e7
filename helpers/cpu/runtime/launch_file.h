// The file through which a parent hands one launch to a child process. Mirrored in ../launch_file.py.
#pragma once

#include "launch.h"

namespace cuda_host {

constexpr int kMaxArguments = 64;
constexpr unsigned long long kRegionRedzone = 64 * 1024;  // on both sides, out of bounds

struct Region {  // memory that one or more tensors of the launch lie in
    unsigned long long file_offset;  // a multiple of 64 KiB, where the page of its first byte starts
    unsigned long long lead;         // bytes between there and its first byte: keeps the parent's alignment
    unsigned long long size;
    unsigned long long reserved;     // bytes of address space to set apart for it
    unsigned long long address;      // out: of its first byte
    int written;                     // whether the kernel may write to it
};

struct Argument {
    int region;                 // of a pointer; -1 for a value
    unsigned long long offset;  // into the region, or into `values`
};

struct Mark {  // bytes that nobody has written yet
    int region;
    unsigned long long offset, size;
};

struct LaunchFile {
    alignas(16) unsigned char values[4096];  // of the arguments that are no pointers
    Launch launch;
    unsigned long long variables;  // offset in the file of the bytes of all __device__ variables, one behind another
    int argument_count, region_count, mark_count;
    Argument arguments[kMaxArguments];
    Region regions[kMaxArguments];
    Mark marks[kMaxArguments];
};

}  // namespace cuda_host
