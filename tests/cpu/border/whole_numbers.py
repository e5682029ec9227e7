"""integers.cu, atomics.cu and stack.cu."""

import numpy as np

from .entry import RANDOM, Entry, f32, floats, i32, zeros

# ---- integers.cu ---------------------------------------------------------------------------------------
wx = np.concatenate([[0, 1, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFF], RANDOM.integers(0, 2**32, 59)]).astype(np.uint32)
wy = np.concatenate([[0xFFFFFFFF, 0x80000000, 3, 0xFFFFFFFF, 2], RANDOM.integers(0, 2**32, 59)]).astype(np.uint32)
lx = np.concatenate([np.array([0, 1, 2**63, 2**64 - 1], np.uint64), RANDOM.integers(0, 2**64, 60, dtype=np.uint64)])


def signed_of(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def bytes_of(value, is_signed):
    return [signed_of(value >> 8 * i & 255, 8) if is_signed else value >> 8 * i & 255 for i in range(4)]


def permuted(a, b, selector):
    out = 0
    for i in range(4):
        digit = selector >> 4 * i & 15
        byte = (b << 32 | a) >> 8 * (digit & 7) & 255
        out |= byte << 8 * i
    return out


def words_of(a, b):
    s, r = signed_of(a, 32), signed_of(b, 32)
    reverse = int(f"{a:032b}"[::-1], 2)
    low24 = [signed_of(v & 0xFFFFFF, 24) for v in (a, b)]
    values = [
        a * b >> 32, s * r >> 32, permuted(a, b, 0x6142), permuted(a, b, 0xB080),
        7 + sum(p * q for p, q in zip(bytes_of(a, True), bytes_of(b, True), strict=True)),
        7 + sum(p * q for p, q in zip(bytes_of(a, False), bytes_of(b, False), strict=True)),
        a.bit_count(), 32 - a.bit_length(), (a & -a).bit_length(), reverse,
        (b << 32 | a) << 5 >> 32, b, 1 + abs(a - b), 1 + abs(s - r), s + r >> 1, a + b + 1 >> 1,
        (a & 0xFFFFFF) * (b & 0xFFFFFF), low24[0] * low24[1],
    ]  # fmt: skip
    return [value & 0xFFFFFFFF for value in values]


def long_words_of(a, b):
    s, r = signed_of(a, 64), signed_of(b, 64)
    reverse = int(f"{a:064b}"[::-1], 2)
    values = [a * b >> 64, s * r >> 64, a.bit_count(), 64 - a.bit_length(), (a & -a).bit_length(), reverse]
    return [value & 2**64 - 1 for value in values]


INTEGERS = [
    Entry(
        "integers.cu",
        "words",
        1,
        64,
        (wx, wy, zeros(18, 64, dtype=np.uint32), i32(64)),
        {2: np.array([words_of(int(a), int(b)) for a, b in zip(wx, wy, strict=True)], np.uint32).T},
    ),
    Entry(
        "integers.cu",
        "long_words",
        1,
        64,
        (lx, zeros(6, 64, dtype=np.uint64), i32(64)),
        {1: np.array([long_words_of(int(a), int(b)) for a, b in zip(lx, lx[::-1], strict=True)], np.uint64).T},
    ),
    Entry("integers.cu", "ticks", 1, 1, (zeros(1, dtype=np.int64),), {0: [11]}),
]

# ---- atomics.cu, stack.cu ------------------------------------------------------------------------------
largest = floats(64)
ATOMICS = [
    Entry(
        "atomics.cu",
        "atomics",
        2,
        32,
        (
            np.array([0, 0, -100, 100, -1, 0, 0, 0], i32),
            np.array([0, 500, 500, 0], np.uint32),
            zeros(3, dtype=np.uint64),
            zeros(1, dtype=np.int64),
            zeros(1, dtype=f32),
            zeros(1, dtype=float),
        ),
        {
            0: [2016, -2016, -7, -63, -256, 255, 126, 64],
            1: np.array([64, 3, 6, 0xFFFFFFF3], np.uint32),
            2: np.array([2**39, 63 << 40, 2**64 - 1], np.uint64),
            3: [-(2**40) - 63],
            4: [32.0],
            5: [16.0],
        },
    ),
    Entry(
        "atomics.cu",
        "locks_of_cas",
        1,
        64,
        (np.array([50], i32), np.array([-9], f32), largest),
        {0: [0], 1: [largest.max()]},
    ),
    Entry(
        "atomics.cu",
        "handed_out",
        2,
        32,
        (zeros(1), zeros(64), zeros(1, dtype=f32)),
        {0: [64], 2: [3.5]},
        writes_freely=1,
    ),
]
STACK = [
    Entry(
        "stack.cu",
        "large_local_array",
        1,
        64,
        (zeros(64),),
        {0: [sum(i ^ t for i in range(t, 24576, 1024)) for t in range(64)]},
    ),
    Entry("stack.cu", "recursion", 1, 8, (zeros(8),), {0: [0, 1, 1, 2, 3, 5, 8, 13]}),
    Entry("stack.cu", "function_pointers", 1, 8, (zeros(8),), {0: [10, 10, 12, 30, 14, 50, 16, 70]}),
    Entry("stack.cu", "lambdas", 1, 8, (zeros(8), i32(5)), {0: 3 * np.arange(8) + 5}),
    Entry("stack.cu", "virtual_calls", 1, 8, (zeros(8),), {0: np.arange(8) ** 2}),
]
