"""rounding.cu, fast_math.cu and halves.cu: floats of 16, 32 and 64 bits, against exact or double arithmetic."""

import math
from fractions import Fraction

import numpy as np
import torch

from .entry import RANDOM, Entry, f32, floats, i32, zeros

# ---- rounding.cu ---------------------------------------------------------------------------------------
MODES = ("rn", "rz", "ru", "rd")
rx, ry = floats(40), floats(40) * f32(3)
dx, dy = RANDOM.standard_normal(40), RANDOM.standard_normal(40)
edges = np.array(
    [0.5, 1.5, -0.5, -1.5, 2.5, 1e10, -1e10, 3e9, np.inf, -np.inf, np.nan, 2.0**31, -(2.0**31), 7.3, -7.3, 1e20], f32
)
whole = np.array([16777217, -16777217, 2**31 - 1, -(2**31), 2**62 + 1, -(2**62) - 1, 2**63 - 1, 33554435, 5, 0])


def directed(exact, mode, dtype):
    """The number of a type that rounding an exact Fraction gives."""
    near = dtype(float(exact)) if dtype is np.float64 else dtype(np.float64(float(exact)))
    around = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    below = max(v for v in around if Fraction(float(v)) <= exact)
    above = min(v for v in around if Fraction(float(v)) >= exact)
    if mode == "rn":
        gaps = exact - Fraction(float(below)), Fraction(float(above)) - exact
        if gaps[0] == gaps[1]:
            bits = below.view(np.uint32 if dtype is f32 else np.uint64)
            return below if bits % 2 == 0 else above
        return below if gaps[0] < gaps[1] else above
    return {"rz": below if exact >= 0 else above, "ru": above, "rd": below}[mode]


def exact_root(value):
    """sqrt to 200 bits, and a little more when it isn't exact: enough to round it rightly."""
    scaled = Fraction(float(value)) * 2**400
    root = math.isqrt(int(scaled))
    return Fraction(2 * root + (root * root != scaled), 2**201)


def all_modes(exacts, dtype):
    return [[directed(exact, mode, dtype) for exact in exacts] for mode in MODES]


def arithmetic_of(a, b, dtype, operations):
    a, b = [Fraction(float(v)) for v in a], [Fraction(float(v)) for v in b]
    return np.array(
        [row for op in operations for row in all_modes([op(p, q) for p, q in zip(a, b, strict=True)], dtype)]
    )


def integer_of(value, mode, bits, is_signed, nan):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    if math.isnan(value):
        return nan
    if math.isinf(value):
        return high if value > 0 else low
    rounded = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}[mode](value)
    return min(max(rounded, low), high)


SUM, DIFFERENCE, PRODUCT, QUOTIENT = (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b)
FUSED_FLOAT, FUSED = (lambda a, b: a * b + Fraction(float(f32(0.3)))), (lambda a, b: a * b + Fraction(0.3))
kinds = [(32, True, 0), (32, False, 0), (64, True, -(2**63)), (32, True, -(2**31))]
ROUNDING = [
    Entry(
        "rounding.cu",
        "float_arithmetic",
        1,
        64,
        (rx, ry, zeros(28, 40, dtype=f32), i32(40)),
        {
            2: np.concatenate(
                [
                    arithmetic_of(rx, ry, f32, [SUM, DIFFERENCE, PRODUCT, QUOTIENT, FUSED_FLOAT, lambda a, b: 1 / a]),
                    all_modes([exact_root(abs(v)) for v in rx], f32),
                ]
            )
        },
    ),
    Entry(
        "rounding.cu",
        "double_arithmetic",
        1,
        64,
        (dx, dy, zeros(16, 40, dtype=float), i32(40)),
        {2: arithmetic_of(dx, dy, np.float64, [SUM, PRODUCT, QUOTIENT, FUSED])},
    ),
    Entry(
        "rounding.cu",
        "to_integers",
        1,
        32,
        (edges, zeros(16, 16, dtype=np.int64), i32(16)),
        {1: np.array([[integer_of(float(v), mode, *kind) for v in edges] for kind in kinds for mode in MODES])},
    ),
    Entry(
        "rounding.cu",
        "from_integers",
        1,
        32,
        (whole, zeros(16, 10, dtype=f32), i32(10)),
        {
            1: np.array(
                [
                    *all_modes([Fraction(int(v.astype(i32))) for v in whole], f32),
                    *all_modes([Fraction(int(v)) for v in whole], f32),
                    *all_modes([Fraction(int(v) % 2**64) for v in whole], f32),
                    *all_modes([Fraction(float(v) / 3) for v in whole], f32),
                ]
            )
        },
    ),
]

# ---- fast_math.cu --------------------------------------------------------------------------------------
mx = np.linspace(0.3, 3.0, 50).astype(f32)
wide = mx.astype(float)
cdf = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in wide])
FAST_MATH = [
    # The slack is that of __sinf, __cosf, __logf near their zeros on a GPU: 2^-21 absolute, and ours is below it.
    Entry(
        "fast_math.cu",
        "fast_math",
        1,
        64,
        (mx, zeros(18, 50, dtype=f32), i32(50)),
        {
            1: np.stack(
                [
                    np.exp(wide),
                    np.log(wide),
                    np.log2(wide),
                    np.log10(wide),
                    wide**1.5,
                    np.sin(wide),
                    np.cos(wide),
                    wide / 3,
                    wide**-0.5,
                    wide**-0.5,
                    10**wide,
                    np.sin(np.pi * wide),
                    np.cos(np.pi * wide),
                    cdf,
                    np.cbrt(wide) ** -1,
                    np.sqrt(wide**2 + 13),
                    np.clip(wide - 1, 0, 1),
                    np.sin(wide) + 2 * np.cos(wide),
                ]
            )
        },
        rtol=3e-6,
    ),
    Entry(
        "fast_math.cu",
        "double_math",
        1,
        64,
        (wide, zeros(4, 50, dtype=float), i32(50)),
        {1: np.stack([wide**-0.5, cdf, wide, 10**wide])},
        rtol=1e-14,
    ),
    Entry(
        "fast_math.cu",
        "constants",
        1,
        1,
        (zeros(6, dtype=f32),),
        {0: np.array([np.inf, np.pi, np.finfo(f32).max, np.inf, np.pi, 1], f32)},
    ),
]

# ---- halves.cu: the answers are torch's, which rounds each operation once ------------------------------
HALVES = []
for dtype, name in ((torch.float16, "__half"), (torch.bfloat16, "__nv_bfloat16")):
    h, k = torch.from_numpy(floats(64)).to(dtype), torch.from_numpy(floats(64)).to(dtype)
    fused = (h.double() * k.double() + h.double()).to(dtype)
    HALVES.append(
        Entry(
            "halves.cu",
            f"arithmetic<{name}>",
            1,
            64,
            (h, k, torch.zeros(12, 64, dtype=dtype), i32(64)),
            {
                2: torch.stack(
                    [
                        h + k,
                        h - k,
                        h * k,
                        h / k,
                        fused,
                        torch.maximum(h, k),
                        torch.minimum(h, k),
                        -h,
                        k.abs(),
                        h.abs().sqrt(),
                        h.floor(),
                        ((h > k).int() + 2 * (h <= k).int() + 4).to(dtype),
                    ]
                )
            },
        )
    )
    pair = (h.double() * k.double() + k.double()).to(dtype)
    HALVES.append(
        Entry(
            "halves.cu",
            f"pairs<{name}2>",
            1,
            32,
            (h, k, torch.zeros(8, 64, dtype=dtype), i32(32)),
            {
                2: torch.stack(
                    [
                        h + k,
                        h * k,
                        pair,
                        torch.maximum(h, k),
                        -h,
                        (h < k).to(dtype),
                        h.view(-1, 2).flip(1).flatten(),
                        h + k,
                    ]
                )
            },
        )
    )
cx = torch.from_numpy(floats(50) * f32(100))


def halfway(value, dtype, mode):
    """Rounding to a 16-bit type by a direction, from torch's rounding to nearest."""
    near = value.to(dtype)
    wrong = {"rz": near.float().abs() > value.abs(), "ru": near.float() < value, "rd": near.float() > value}[mode]
    bits = near.view(torch.int16)
    grows = {"rz": torch.zeros_like(wrong), "ru": value > 0, "rd": value < 0}[mode]
    return torch.where(wrong, torch.where(grows, bits + 1, bits - 1), bits).view(dtype)


HALVES += [
    Entry(
        "halves.cu",
        "conversions",
        1,
        64,
        (cx, torch.zeros(4, 50, dtype=torch.float16), torch.zeros(2, 50, dtype=torch.bfloat16), zeros(2, 50), i32(50)),
        {
            1: torch.stack([cx.half(), *(halfway(cx, torch.float16, mode) for mode in MODES[1:])]),
            2: torch.stack([cx.bfloat16(), halfway(cx, torch.bfloat16, "rz")]),
            3: torch.stack([cx.half().float().round(), cx.half().float().trunc()]).int(),
        },
    ),
    Entry(
        "halves.cu",
        "dot_of_halves",
        1,
        32,
        (h_ := torch.arange(64).half(), h_, zeros(1, dtype=f32), i32(32)),
        {2: [sum(i * i for i in range(64))]},
    ),
    Entry(
        "halves.cu",
        "add_atomically",
        2,
        32,
        (
            torch.zeros(1, dtype=torch.float16),
            torch.zeros(2, dtype=torch.float16),
            torch.zeros(1, dtype=torch.bfloat16),
        ),
        {0: torch.tensor([32.0]).half(), 1: torch.tensor([64.0, 128.0]).half(), 2: torch.tensor([16.0]).bfloat16()},
    ),
]
