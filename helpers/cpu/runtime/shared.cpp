// Shared memory of the block that runs now.
//
// Variables get their places in the order in which the block first reaches them, behind the dynamic part. In
// the fast build these places are in launch->shared itself. With redzones each variable lies apart, between
// bytes that no variable owns, and its content is carried between its two places.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime.h"
#include "sanitizers.h"

namespace cuda_host {

namespace {

constexpr size_t kRedzone = 16 * 1024, kApartBytes = kSharedBytes + (kMaxSlots + 1) * kRedzone;

char* apart;  // null in the fast build
unsigned long long block_number;
size_t used, used_apart;
char* dynamic;
size_t places[kMaxSlots];  // of the slots in launch->shared

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

char* place(const char* name, size_t size, size_t alignment, Where where) {
    size_t start = round_up(used, alignment);
    if (start + size > kSharedBytes || launch->slot_count == static_cast<int>(kMaxSlots))
        fault("shared memory", "the block asks for more than 227 KiB or 64 variables of shared memory", where);
    used = start + size;
    char* content = reinterpret_cast<char*>(launch->shared) + start;
    char* address = content;
    if (apart) {
        address = apart + used_apart;
        used_apart = round_up(used_apart + size, 16) + kRedzone;
        tell::in_bounds(address, size);
    }
    tell::Unwatched unwatched;
    if (!launch->keep_shared)
        memset(address, 0xcb, size);
    else if (apart)
        memcpy(address, content, size);

    SlotPlace& slot = launch->slots[launch->slot_count];
    places[launch->slot_count++] = start;
    strncpy(slot.name, name, sizeof slot.name - 1);
    slot.address = reinterpret_cast<unsigned long long>(address);
    slot.size = size;
    return address;
}

}  // namespace

void begin_shared(bool redzones) {
    if (redzones && !apart)
        apart = static_cast<char*>(mmap(nullptr, kApartBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0));
    if (apart == MAP_FAILED) abort();
}

void begin_block_shared() {
    ++block_number;
    used = 0;
    used_apart = kRedzone;
    launch->slot_count = 0;
    if (apart) {
        // For ThreadSanitizer, the next block's shared memory is new memory, not the last block's.
        if (tell::kFiberIsThread)
            mmap(apart, kApartBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0);
        tell::out_of_bounds(apart, kApartBytes);
    }
    dynamic = nullptr;
    if (launch->shared_bytes) {
        dynamic = place("dynamic shared memory", launch->shared_bytes, 16, {});
        tell::uninitialised(dynamic, launch->shared_bytes);
    }
}

void end_block_shared() {
    if (!apart) return;
    tell::Unwatched unwatched;
    for (int i = 0; i < launch->slot_count; ++i)
        memcpy(launch->shared + places[i], reinterpret_cast<void*>(launch->slots[i].address), launch->slots[i].size);
}

void* shared_slot(SharedSlot& slot, unsigned long size, unsigned long alignment) {
    if (slot.block != block_number) {
        slot.address = place(slot.name, size, alignment, {});
        slot.block = block_number;
        tell::uninitialised(slot.address, size);
    }
    return slot.address;
}

void* dynamic_shared() { return dynamic; }

}  // namespace cuda_host
