// Reductions over a tile or over coalesced threads. Every thread gets the result.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <unsigned kSize, class Parent, class T, class Join>
T reduce(const thread_block_tile<kSize, Parent>& tile, T value, Join join, CUDA_HOST_HERE) {
    for (unsigned bits = kSize / 2; bits > 0; bits /= 2) value = join(value, tile.shfl_xor(value, bits, where));
    return value;
}
template <class T, class Join>
T reduce(const coalesced_group& group, T value, Join join, CUDA_HOST_HERE) {
    T total = group.shfl(value, 0, where);
    for (unsigned rank = 1; rank < group.size(); ++rank) total = join(total, group.shfl(value, rank, where));
    return total;
}

}  // namespace cooperative_groups
