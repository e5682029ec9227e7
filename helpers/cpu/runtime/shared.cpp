// Shared memory of the blocks under way.
//
// Variables get their places in the order in which the block first reaches them, behind the dynamic part. In
// the fast build these places are in launch->shared itself, for the first of the blocks under way. The others, and
// with redzones all of them, have an area of their own, where each variable lies apart, between bytes that no variable
// owns; its content is carried between its two places.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "block.h"
#include "runtime.h"
#include "sanitizers.h"

namespace cuda_host {

namespace {

constexpr size_t kRedzone = 16 * 1024, kApartBytes = kSharedBytes + (kMaxSlots + 1) * kRedzone;
constexpr size_t kMapBytes = kApartBytes + sizeof(Meetings);  // the meetings lie behind

bool has_redzones;
unsigned long long blocks_so_far;

}  // namespace

struct SharedMemory {
    unsigned long long block_number;
    char* apart;     // its own area, or null
    bool in_place;   // in launch->shared
    bool taken;      // by a block under way
    size_t used, used_apart;
    char* dynamic;
    int slot_count;
    SharedSlot* slots[kMaxSlots];  // the kernel's; null for the dynamic part
    SlotPlace places[kMaxSlots];
    size_t starts[kMaxSlots];      // of the slots in launch->shared
};

namespace {

SharedMemory areas[kMaxBlocks];
SharedMemory* shared;  // of the block that runs now

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

char* map_apart(char* at) {
    if (at) munmap(at, kMapBytes);  // ThreadSanitizer forgets what it knows of it
    void* memory = mmap(at, kMapBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | (at ? MAP_FIXED : 0), -1, 0);
    if (memory == MAP_FAILED) abort();
    return static_cast<char*>(memory);
}

// What faults say of shared memory is about the block that runs now.
void show_places() {
    launch->slot_count = shared->slot_count;
    memcpy(launch->slots, shared->places, static_cast<size_t>(shared->slot_count) * sizeof(SlotPlace));
}

char* place(SharedSlot* slot, const char* name, size_t size, size_t alignment) {
    size_t start = round_up(shared->used, alignment);
    if (start + size > kSharedBytes || shared->slot_count == static_cast<int>(kMaxSlots))
        fault("shared memory", "the block asks for more than 227 KiB or 64 variables of shared memory", {});
    shared->used = start + size;
    char* content = reinterpret_cast<char*>(launch->shared) + start;
    char* address = content;
    if (!shared->in_place) {
        address = shared->apart + shared->used_apart;
        shared->used_apart = round_up(shared->used_apart + size, 16) + kRedzone;
        tell::in_bounds(address, size);
    }
    tell::Unwatched unwatched;
    if (!launch->keep_shared)
        memset(address, 0xcb, size);
    else if (!shared->in_place)
        memcpy(address, content, size);

    int index = shared->slot_count++;
    shared->slots[index] = slot;
    shared->starts[index] = start;
    SlotPlace& place = shared->places[index];
    memset(&place, 0, sizeof place);
    strncpy(place.name, name, sizeof place.name - 1);
    place.address = reinterpret_cast<unsigned long long>(address);
    place.size = size;
    launch->slots[index] = place;
    launch->slot_count = shared->slot_count;
    return address;
}

}  // namespace

void begin_shared(bool redzones) {
    has_redzones = redzones;
    for (SharedMemory& area : areas) area.taken = false;
}

SharedMemory* begin_block_shared() {
    shared = areas;
    while (shared->taken) ++shared;
    shared->taken = true;
    shared->block_number = ++blocks_so_far;
    shared->in_place = shared == areas && !has_redzones;
    shared->used = 0;
    shared->used_apart = kRedzone;
    shared->slot_count = launch->slot_count = 0;
    if (!shared->in_place) {
        // For ThreadSanitizer, the next block's shared memory is new memory, not the last block's.
        if (!shared->apart || tell::kFiberIsThread) shared->apart = map_apart(shared->apart);
        tell::out_of_bounds(shared->apart, kApartBytes);
    }
    shared->dynamic = nullptr;
    if (launch->shared_bytes) {
        shared->dynamic = place(nullptr, "dynamic shared memory", launch->shared_bytes, 16);
        tell::uninitialised(shared->dynamic, launch->shared_bytes);
    }
    return shared;
}

void* new_meetings(SharedMemory* begun) {
    static Meetings nobody_looks;
    return tell::kFiberIsThread ? static_cast<void*>(begun->apart + kApartBytes) : &nobody_looks;
}

void enter_block_shared(SharedMemory* entered) {
    shared = entered;
    for (int i = 0; i < shared->slot_count; ++i)
        if (SharedSlot* slot = shared->slots[i]) {
            slot->block = shared->block_number;
            slot->address = reinterpret_cast<void*>(shared->places[i].address);
        }
    show_places();
}

void end_block_shared(SharedMemory* ended) {
    ended->taken = false;
    if (areas[0].in_place && (areas[0].taken || ended == areas)) return;  // what is there is a block's own
    tell::Unwatched unwatched;
    for (int i = 0; i < ended->slot_count; ++i)
        memcpy(launch->shared + ended->starts[i], reinterpret_cast<void*>(ended->places[i].address), ended->places[i].size);
}

bool is_shared(const void* address) {
    auto offset = static_cast<size_t>(static_cast<const char*>(address) - shared->apart);
    return shared->apart && offset < kApartBytes;
}

void* shared_slot(SharedSlot& slot, unsigned long size, unsigned long alignment) {
    if (slot.block != shared->block_number) {
        slot.address = place(&slot, slot.name, size, alignment);
        slot.block = shared->block_number;
        tell::uninitialised(slot.address, size);
    }
    return slot.address;
}

void* dynamic_shared() { return shared->dynamic; }

}  // namespace cuda_host
