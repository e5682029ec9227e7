// Cooperative groups on the host: the block, tiles of a warp, and the lanes that are together in a branch.
#pragma once

#include <type_traits>

#include "cuda_host/integers.h"
#include "cuda_host/sync.h"

namespace cooperative_groups {

namespace host {

// Lanes `start` to `start + size - 1` of a warp, as a mask.
inline unsigned lanes(unsigned start, unsigned size) { return (size == 32 ? ~0u : (1u << size) - 1) << start; }

// A value of up to 32 bytes, through shuffles of 8.
template <class T, class Shuffle>
T in_words(const T& value, Shuffle shuffle) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32, "a shuffle takes plain values of up to 32 bytes");
    unsigned long long words[(sizeof(T) + 7) / 8] = {};
    __builtin_memcpy(words, &value, sizeof value);
    for (auto& word : words) word = shuffle(word);
    T result;
    __builtin_memcpy(&result, words, sizeof result);
    return result;
}

}  // namespace host

// ---- the block -----------------------------------------------------------------------------------------
class thread_block {
public:
    static void sync(CUDA_HOST_HERE) { __syncthreads(where); }
    static unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned size() { return num_threads(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }

// ---- the grid: who and how many, but no barrier --------------------------------------------------------
class grid_group {
public:
    template <class T = void>
    static void sync() {
        static_assert(!std::is_void_v<T>, "the CPU build has no barrier of the whole grid: launch a second kernel instead");
    }
    static unsigned long long block_rank() {
        return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    static dim3 group_dim() { return gridDim; }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return thread_block::group_index(); }
    static bool is_valid() { return false; }  // as of a launch that isn't cooperative
};
inline grid_group this_grid() { return {}; }

// ---- lanes of one warp ---------------------------------------------------------------------------------
// Ranks count the lanes of `mask` from below. Every member function is for all of the lanes at once.
class coalesced_group {
public:
    explicit coalesced_group(unsigned mask) : mask(mask) {}

    void sync(CUDA_HOST_HERE) const { __syncwarp(mask, where); }
    unsigned num_threads() const { return __popc(mask); }
    unsigned size() const { return num_threads(); }
    unsigned thread_rank() const { return __popc(mask & ((1u << cuda_host::lane()) - 1)); }

    template <class T>
    T shfl(T value, int rank, CUDA_HOST_HERE) const {
        int source = lane_of(rank % static_cast<int>(size()));
        return host::in_words(value, [&](auto word) { return __shfl_sync(mask, word, source, 32, where); });
    }
    template <class T>
    T shfl_up(T value, unsigned delta, CUDA_HOST_HERE) const {
        unsigned rank = thread_rank();
        return shfl(value, rank < delta ? rank : rank - delta, where);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, CUDA_HOST_HERE) const {
        unsigned rank = thread_rank();
        return shfl(value, rank + delta < size() ? rank + delta : rank, where);
    }
    bool any(int predicate, CUDA_HOST_HERE) const { return __any_sync(mask, predicate, where); }
    bool all(int predicate, CUDA_HOST_HERE) const { return __all_sync(mask, predicate, where); }
    unsigned ballot(int predicate, CUDA_HOST_HERE) const { return ranks_of(__ballot_sync(mask, predicate, where)); }
    template <class T>
    unsigned match_any(T value, CUDA_HOST_HERE) const { return ranks_of(__match_any_sync(mask, value, where)); }
    template <class T>
    unsigned match_all(T value, int& all_equal, CUDA_HOST_HERE) const {
        return ranks_of(__match_all_sync(mask, value, &all_equal, where));
    }

    unsigned lanes() const { return mask; }

private:
    int lane_of(int rank) const { return static_cast<int>(__fns(mask, 0, rank + 1)); }
    unsigned ranks_of(unsigned bits) const {
        unsigned packed = 0;
        for (unsigned rest = mask, rank = 0; rest; rest &= rest - 1, ++rank)
            if (bits & rest & -rest) packed |= 1u << rank;
        return packed;
    }

    unsigned mask;
};
inline coalesced_group coalesced_threads(CUDA_HOST_HERE) { return coalesced_group(__activemask(where)); }

// A group whose kind is known only when it runs: a block, or a power of two of lanes.
class thread_group {
public:
    thread_group(thread_block) : mask(0) {}
    explicit thread_group(unsigned mask) : mask(mask) {}
    thread_group(const coalesced_group& group) : mask(group.lanes()) {}

    void sync(CUDA_HOST_HERE) const { mask ? __syncwarp(mask, where) : __syncthreads(where); }
    unsigned num_threads() const { return mask ? __popc(mask) : thread_block::size(); }
    unsigned size() const { return num_threads(); }
    unsigned thread_rank() const {
        return mask ? coalesced_group(mask).thread_rank() : thread_block::thread_rank();
    }

private:
    unsigned mask;  // 0: the block
};

template <unsigned kSize, class Parent = void>
class thread_block_tile {
    static_assert(kSize == 1 || kSize == 2 || kSize == 4 || kSize == 8 || kSize == 16 || kSize == 32,
                  "the CPU build has tiles of up to 32 threads, a power of two");

public:
    // How many tiles its parent has, and which of them this is.
    thread_block_tile(unsigned tiles, unsigned tile) : tiles(tiles), tile(tile) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<kSize, Other>& other)
        : tiles(other.meta_group_size()), tile(other.meta_group_rank()) {
        static_assert(std::is_void_v<Parent>, "a tile can only forget what it is a part of");
    }
    operator thread_group() const { return thread_group(mask()); }

    void sync(CUDA_HOST_HERE) const { __syncwarp(mask(), where); }
    static constexpr unsigned num_threads() { return kSize; }
    static constexpr unsigned size() { return kSize; }
    static unsigned thread_rank() { return cuda_host::lane() % kSize; }
    unsigned meta_group_size() const { return tiles; }
    unsigned meta_group_rank() const { return tile; }

    template <class T>
    T shfl(T value, int rank, CUDA_HOST_HERE) const {
        return host::in_words(value, [&](auto word) { return __shfl_sync(mask(), word, rank, kSize, where); });
    }
    template <class T>
    T shfl_up(T value, unsigned delta, CUDA_HOST_HERE) const {
        return host::in_words(value, [&](auto word) { return __shfl_up_sync(mask(), word, delta, kSize, where); });
    }
    template <class T>
    T shfl_down(T value, unsigned delta, CUDA_HOST_HERE) const {
        return host::in_words(value, [&](auto word) { return __shfl_down_sync(mask(), word, delta, kSize, where); });
    }
    template <class T>
    T shfl_xor(T value, unsigned bits, CUDA_HOST_HERE) const {
        return host::in_words(value, [&](auto word) {
            return __shfl_xor_sync(mask(), word, static_cast<int>(bits), kSize, where);
        });
    }
    bool any(int predicate, CUDA_HOST_HERE) const { return __any_sync(mask(), predicate, where); }
    bool all(int predicate, CUDA_HOST_HERE) const { return __all_sync(mask(), predicate, where); }
    unsigned ballot(int predicate, CUDA_HOST_HERE) const { return __ballot_sync(mask(), predicate, where) >> start(); }
    template <class T>
    unsigned match_any(T value, CUDA_HOST_HERE) const { return __match_any_sync(mask(), value, where) >> start(); }
    template <class T>
    unsigned match_all(T value, int& all_equal, CUDA_HOST_HERE) const {
        return __match_all_sync(mask(), value, &all_equal, where) >> start();
    }

    static unsigned lanes() { return mask(); }

private:
    static unsigned start() { return cuda_host::lane() / kSize * kSize; }
    static unsigned mask() { return host::lanes(start(), kSize); }

    unsigned tiles, tile;
};

namespace host {
template <unsigned kSize, class Parent>
thread_block_tile<kSize, Parent> part_of(const Parent& parent) {
    return {(parent.size() + kSize - 1) / kSize, parent.thread_rank() / kSize};
}
}  // namespace host

template <unsigned kSize>
thread_block_tile<kSize, thread_block> tiled_partition(const thread_block& block) { return host::part_of<kSize>(block); }
template <unsigned kSize, unsigned kParent, class Grandparent>
thread_block_tile<kSize, thread_block_tile<kParent, Grandparent>> tiled_partition(
    const thread_block_tile<kParent, Grandparent>& parent) {
    static_assert(kSize <= kParent, "a tile can't be larger than the tile that it is a part of");
    return host::part_of<kSize>(parent);
}
inline thread_group tiled_partition(const thread_group&, unsigned size) {
    return thread_group(host::lanes(cuda_host::lane() / size * size, size));
}

// The lanes of a group that give the same label, or the same yes or no.
template <class Group, class Label>
coalesced_group labeled_partition(const Group& group, Label label, CUDA_HOST_HERE) {
    return coalesced_group(__match_any_sync(group.lanes(), label, where));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool yes, CUDA_HOST_HERE) {
    unsigned said_yes = __ballot_sync(group.lanes(), yes, where);
    return coalesced_group(yes ? said_yes : group.lanes() & ~said_yes);
}

// ---- any group, by function ----------------------------------------------------------------------------
template <class Group>
void sync(const Group& group, CUDA_HOST_HERE) { group.sync(where); }
template <class Group>
auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group>
auto group_size(const Group& group) { return group.size(); }

}  // namespace cooperative_groups
