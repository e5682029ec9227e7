// Prefix sums over a tile or over coalesced threads, of ranks 0 up to this thread's.
#pragma once

#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Join>
T inclusive_scan(const Group& group, T value, Join join, CUDA_HOST_HERE) {
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T before = group.shfl_up(value, delta, where);
        if (group.thread_rank() >= delta) value = join(before, value);
    }
    return value;
}
template <class Group, class T>
T inclusive_scan(const Group& group, T value, CUDA_HOST_HERE) { return inclusive_scan(group, value, plus<T>(), where); }

// Rank 0, before which there is nothing, gets T().
template <class Group, class T, class Join>
T exclusive_scan(const Group& group, T value, Join join, CUDA_HOST_HERE) {
    T before = group.shfl_up(inclusive_scan(group, value, join, where), 1, where);
    return group.thread_rank() == 0 ? T() : before;
}
template <class Group, class T>
T exclusive_scan(const Group& group, T value, CUDA_HOST_HERE) { return exclusive_scan(group, value, plus<T>(), where); }

}  // namespace cooperative_groups
