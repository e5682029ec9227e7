// The child process: runs one launch under a sanitizer.
//
// runner FILE_DESCRIPTOR KERNELS INDEX SECONDS PARENT: the launch file, the compiled kernels, which of them, the
// limit, and the process without which it has no business.
// The launch file tells the parent how it went; a sanitizer's report goes to stderr.

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <unistd.h>

#include "../include/cuda_host/entry.h"
#include "../include/cuda_host/variables.h"
#include "launch_file.h"
#include "runtime.h"
#include "sanitizers.h"

namespace cuda_host {

namespace {

// Note where the current thread stands, and end. A sanitizer ends in SIGABRT, after its report.
void on_signal(int signal) {
    note_fault(signal == SIGALRM ? "timeout" : "abort", "", {nullptr, 0});
    _exit(1);
}

[[noreturn]] void give_up(const char* what) {
    fprintf(stderr, "runner: %s\n", what);
    _exit(2);
}

void* check(void* mapping) {
    if (mapping == MAP_FAILED) give_up("mmap failed");
    return mapping;
}

// Puts a region in the middle of address space that nothing else uses.
void map_region(Region& region, int file) {
    char* space = static_cast<char*>(check(
        mmap(nullptr, region.reserved, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0)));
    size_t bytes = (region.lead + region.size + kRegionRedzone - 1) / kRegionRedzone * kRegionRedzone;
    char* start = space + (region.reserved - bytes) / 2 / kRegionRedzone * kRegionRedzone;
    check(mmap(start - kRegionRedzone, bytes + 2 * kRegionRedzone, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANON | MAP_FIXED | MAP_NORESERVE, -1, 0));
    if (bytes)
        check(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
                   static_cast<off_t>(region.file_offset)));
    tell::out_of_bounds(start - kRegionRedzone, bytes + 2 * kRegionRedzone);
    tell::in_bounds(start + region.lead, region.size);
    region.address = reinterpret_cast<unsigned long long>(start + region.lead);
}

char* at(const Region& region, unsigned long long offset) {
    return reinterpret_cast<char*>(region.address) + offset;
}

enum class Way { In, Out };

// The __device__ variables, from the launch file and back: they outlive this process.
void carry_variables(const DeviceVariable* first, off_t offset, int file, Way way) {
    tell::Unwatched unwatched;
    size_t bytes = 0;
    for (auto* variable = first; variable; variable = variable->next)
        if (!variable->is_const) bytes += variable->size;
    if (!bytes) return;
    char* at = static_cast<char*>(check(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset)));
    for (auto* variable = first; variable; variable = variable->next) {
        if (variable->is_const) continue;
        way == Way::In ? memcpy(variable->address, at, variable->size) : memcpy(at, variable->address, variable->size);
        at += variable->size;
    }
}

// The end of an MSan run: a written array must not hold bytes that come from nowhere. Copies alone are no
// error for MSan, so nothing else would tell.
void check_results(const LaunchFile& file) {
    for (int i = 0; i < file.region_count; ++i) {
        const Region& region = file.regions[i];
        long first = region.written && region.size ? tell::first_uninitialised(at(region, 0), region.size) : -1;
        if (first < 0) continue;
        note_fault("uninitialised output", "", {nullptr, 0});
        launch->fault.address = region.address + static_cast<unsigned long long>(first);
        tell::report_uninitialised(at(region, 0), region.size);
    }
}

// Even by SIGKILL; a tool or a hanging kernel can't hold this one back. Elsewhere the limit ends an orphan.
void end_with(pid_t parent) {
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) _exit(1);  // it ended before the line above
}

}  // namespace

}  // namespace cuda_host

int main(int count, char** words) {
    using namespace cuda_host;
    if (count != 6) give_up("expected FILE_DESCRIPTOR KERNELS INDEX SECONDS PARENT");
    end_with(atoi(words[5]));
    int descriptor = atoi(words[1]);
    auto& file = *static_cast<LaunchFile*>(
        check(mmap(nullptr, sizeof(LaunchFile), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)));
    launch = &file.launch;

    void* library = dlopen(words[2], RTLD_NOW);
    if (!library) give_up(dlerror());
    const auto* kernels = static_cast<const Kernel*>(dlsym(library, "cuda_host_kernels"));
    auto* const* variables = static_cast<const DeviceVariable***>(dlsym(library, "cuda_host_variables"));
    if (!kernels || !variables) give_up("the library has no kernels");
    carry_variables(**variables, static_cast<off_t>(file.variables), descriptor, Way::In);

    for (int i = 0; i < file.region_count; ++i) map_region(file.regions[i], descriptor);
    for (int i = 0; i < file.mark_count; ++i)
        tell::uninitialised(at(file.regions[file.marks[i].region], file.marks[i].offset), file.marks[i].size);
    void* values[kMaxArguments];
    char* pointers[kMaxArguments];
    for (int i = 0; i < file.argument_count; ++i) {
        const Argument& argument = file.arguments[i];
        pointers[i] = argument.region < 0 ? nullptr : at(file.regions[argument.region], argument.offset);
        values[i] = argument.region < 0 ? static_cast<void*>(file.values + argument.offset) : &pointers[i];
    }

    signal(SIGABRT, on_signal);
    tell::on_death([] { on_signal(SIGABRT); });
    signal(SIGALRM, on_signal);
    alarm(static_cast<unsigned>(atoi(words[4])));
    begin_shared(true);
    cuda_host_run_blocks(kernels[atoi(words[3])].invoke, values);
    fflush(stdout);  // what the kernel printed
    carry_variables(**variables, static_cast<off_t>(file.variables), descriptor, Way::Out);
    if (!launch->fault.kind[0]) check_results(file);
    _exit(0);
}
