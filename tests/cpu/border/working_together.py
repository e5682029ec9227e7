"""shared_places.cu, warps.cu and groups.cu: how threads exchange values."""

import numpy as np

from .entry import Entry, f32, floats, i32, ints, mask_of, rows, zeros

# ---- shared_places.cu ----------------------------------------------------------------------------------
t32 = np.arange(32)
of_squares = sum(t32**2) + (31 - t32) ** 2 + 2 * t32**2 + 32
SHARED = [
    Entry(
        "shared_places.cu",
        "file_scope",
        2,
        32,
        (zeros(2, 32),),
        {0: [of_squares] * 2},
    ),
    Entry(
        "shared_places.cu",
        "file_scope_dynamic",
        2,
        32,
        (zeros(2, 32, dtype=f32), i32(32)),
        {0: [(31 - t32) / 2] * 2},
        shared_mem=128,
    ),
    Entry("shared_places.cu", "behind_a_macro", 1, 32, (zeros(32),), {0: 31 - t32}),
    Entry(
        "shared_places.cu",
        "types_in_place",
        2,
        32,
        (zeros(2, 32),),
        {0: [(31 - t32) * (1 + 1000 - 100000) + 7 + 2 + 100 + 1] * 2},
    ),
    Entry(
        "shared_places.cu",
        "dynamic_of_a_template<double>",
        1,
        32,
        (t32 / 4, i32(32)),
        {0: np.roll(t32, -1) / 4},
        shared_mem=256,
    ),
    Entry(
        "shared_places.cu",
        "dynamic_of_a_template<short>",
        1,
        32,
        (t32.astype(np.int16), i32(32)),
        {0: np.roll(t32, -1)},
        shared_mem=64,
    ),
]

# ---- warps.cu ------------------------------------------------------------------------------------------
w128, w1024, w32 = ints(128).astype(f32), ints(1024), ints(32)
signed = ints(32, low=-9, high=9)
few = ints(32, high=6)
in_eighths = np.where(t32 < 16, 3, t32)  # divided by 8, equal in the first half alone
kept = signed[signed > 0]


WARPS = [
    Entry("warps.cu", "warp_sum", 2, 64, (w128, zeros(4, dtype=f32)), {1: w128.reshape(4, 32).sum(1)}),
    Entry("warps.cu", "block_sum_by_warps", 1, 1024, (w1024, zeros(1)), {1: [w1024.sum()]}),
    Entry("warps.cu", "warp_prefix_sum", 1, 32, (w32, zeros(32)), {1: np.cumsum(w32)}),
    Entry(
        "warps.cu",
        "compact_positive",
        1,
        32,
        (signed, zeros(32), zeros(1)),
        {1: np.pad(kept, (0, 32 - len(kept))), 2: [len(kept)]},
    ),
    Entry(
        "warps.cu",
        "matches",
        1,
        32,
        (in_eighths.astype(i32), zeros(32), zeros(64), zeros(32)),
        {
            1: np.array([mask_of(in_eighths == v) for v in in_eighths], np.uint32).view(i32),
            2: np.where(np.arange(64) < 16, 0xFFFF, 0),
            3: np.where(t32 < 16, 1, 0),
        },
    ),
    Entry("warps.cu", "vote", 1, 32, (few, zeros(32)), {1: np.full(32, (5 in few) + 10 + 100 * few.sum())}),
    Entry("warps.cu", "sort_a_warp", 1, 32, (floats(32),), {0: None}),
]
WARPS[-1].expected[0] = np.sort(WARPS[-1].args[0])

# ---- groups.cu -----------------------------------------------------------------------------------------
g64, g32 = ints(64), np.arange(32, dtype=i32)
t8 = t32 % 8
by16, sides = w32.reshape(2, 16), g32 > 15
ones16 = np.ones(16, int)
third = w32 % 3
points = t32 ^ 3
GROUPS = [
    Entry("groups.cu", "sum_any_group", 1, 64, (g64, zeros(5)), {1: [g64.sum(), *g64.reshape(4, 16).sum(1)]}),
    Entry(
        "groups.cu",
        "tile_shuffles",
        1,
        32,
        (w32, zeros(6, 32)),
        {
            1: rows(
                w32[t32 - t8 + 2],
                w32[t32 + (t8 < 7)],
                w32[t32 - 3 * (t8 > 2)],
                w32[t32 ^ 5],
                [mask_of(w32[i : i + 8] % 2) + 1000 * (3 in w32[i : i + 8]) + 10000 for i in t32 - t8],
                t8 + 10 * (t32 // 8) + 4000 + 10000 * (t8 // 4) + 400000,
                dtype=i32,
            )
        },
    ),
    Entry(
        "groups.cu",
        "tile_results",
        1,
        32,
        (w32, w32.astype(f32), zeros(6, 32), zeros(32, dtype=f32)),
        {
            2: rows(
                *(np.outer(column, ones16).ravel() for column in (by16.sum(1), by16.min(1), by16.max(1))),
                np.cumsum(by16, 1).ravel(),
                (np.cumsum(by16, 1) - by16).ravel(),
                np.outer(np.bitwise_xor.reduce(by16, 1), ones16).ravel(),
                dtype=i32,
            ),
            3: np.outer(by16.sum(1), ones16).ravel(),
        },
    ),
    Entry("groups.cu", "groups_by_label", 1, 32, (w32, zeros(3, 32)), {1: None}),
    Entry(
        "groups.cu",
        "places",
        3,
        (4, 2),
        (zeros(24),),
        {0: 24000 + np.add.outer(np.arange(3) * 100, np.arange(8) // 4 * 10 + np.arange(8)).ravel()},
    ),
    Entry(
        "groups.cu",
        "shuffle_structs",
        1,
        32,
        (zeros(32, dtype=float),),
        {0: points + 0.5 + 200 * points + 10000 * points},
    ),
]
labels = [np.nonzero(third == value)[0] for value in third]
side_of = [np.nonzero((w32 > 15) == value)[0] for value in w32 > 15]
GROUPS[3].expected[1] = (
    rows(
        [len(same) * 100 + list(same).index(i) for i, same in enumerate(labels)],
        [w32[same].sum() for same in labels],
        [int(w32[side[0]]) + 100 * mask_of(side % 2 == 0) for side in side_of],
        dtype=np.int64,
    )
    .astype(np.uint32)
    .view(i32)
)
