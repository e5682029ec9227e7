// What each warp operation does with the values of its lanes.
#pragma once

#include "../include/cuda_host/runtime.h"

namespace cuda_host {

template <class T, class Lanes, class Join>
void reduce(unsigned mask, Lanes lanes, Join join) {
    T total = static_cast<T>(lanes(__builtin_ctz(mask)).value);
    for (unsigned rest = mask & (mask - 1); rest; rest &= rest - 1)
        total = join(total, static_cast<T>(lanes(__builtin_ctz(rest)).value));
    for (unsigned rest = mask; rest; rest &= rest - 1)
        lanes(__builtin_ctz(rest)).result = static_cast<unsigned>(total);
}

// Gives every lane of `mask` the result of the operation that all of them have come to.
// lanes(i): the Exchange of lane i.
template <class Lanes>
void exchange_values(WarpOp op, unsigned mask, Lanes lanes) {
    auto each = [&](auto&& result) {
        for (unsigned rest = mask; rest; rest &= rest - 1) {
            Exchange& lane = lanes(__builtin_ctz(rest));
            lane.lanes = mask;
            lane.result = result(lane);
        }
    };
    switch (op) {
        case WarpOp::Sync: return;
        case WarpOp::Shuffle:  // a lane that takes no part has no value to give: undefined on a GPU, 0xCB here
            return each([&](Exchange& lane) {
                bool given = mask >> lane.source & 1;
                return given ? lanes(lane.source).value : 0xcbcbcbcbcbcbcbcbull;
            });
        case WarpOp::Ballot: {
            unsigned long long ballot = 0;
            for (unsigned rest = mask; rest; rest &= rest - 1)
                ballot |= lanes(__builtin_ctz(rest)).value << __builtin_ctz(rest);
            return each([&](Exchange&) { return ballot; });
        }
        case WarpOp::MatchAny:
            return each([&](Exchange& lane) {
                unsigned long long equal = 0;
                for (unsigned rest = mask; rest; rest &= rest - 1)
                    if (lanes(__builtin_ctz(rest)).value == lane.value) equal |= rest & -rest;
                return equal;
            });
        case WarpOp::Add: return reduce<unsigned>(mask, lanes, [](auto a, auto b) { return a + b; });
        case WarpOp::MinSigned: return reduce<int>(mask, lanes, [](auto a, auto b) { return a < b ? a : b; });
        case WarpOp::MaxSigned: return reduce<int>(mask, lanes, [](auto a, auto b) { return a < b ? b : a; });
        case WarpOp::MinUnsigned: return reduce<unsigned>(mask, lanes, [](auto a, auto b) { return a < b ? a : b; });
        case WarpOp::MaxUnsigned: return reduce<unsigned>(mask, lanes, [](auto a, auto b) { return a < b ? b : a; });
        case WarpOp::And: return reduce<unsigned>(mask, lanes, [](auto a, auto b) { return a & b; });
        case WarpOp::Or: return reduce<unsigned>(mask, lanes, [](auto a, auto b) { return a | b; });
        case WarpOp::Xor: return reduce<unsigned>(mask, lanes, [](auto a, auto b) { return a ^ b; });
    }
}

}  // namespace cuda_host
