"""elementwise.cu and blocks.cu: the kernels of every course."""

import numpy as np

from .entry import RANDOM, Entry, f32, floats, i32, ints, zeros

# ---- elementwise.cu ------------------------------------------------------------------------------------
x, y = floats(1000), floats(1000)
a2, b2 = floats(37, 41), floats(37, 41)
pixels = RANDOM.integers(0, 256, (100, 4)).astype(np.uint8)
padded = np.pad(x.astype(float), 1)


def mandelbrot(width, height):
    steps = zeros(height, width)
    for row in range(height):
        for column in range(width):
            c = complex(-2.0 + 3.0 * column / width, -1.0 + 2.0 * row / height)
            z, step = 0j, 0
            while step < 50 and z.real * z.real + z.imag * z.imag <= 4.0:
                z = complex(z.real * z.real - z.imag * z.imag + c.real, 2.0 * z.real * z.imag + c.imag)
                step += 1
            steps[row, column] = step
    return steps


ELEMENTWISE = [
    Entry("elementwise.cu", "saxpy", 4, 256, (i32(1000), f32(2), x, y), {3: 2.0 * x + y}, rtol=1e-6),
    Entry("elementwise.cu", "grid_stride_square", 3, 32, (ints(500), zeros(500), i32(500)), {1: None}),
    Entry(
        "elementwise.cu",
        "add_matrices",
        (2, 3),
        (32, 16),
        (a2, b2, zeros(37, 41, dtype=f32), i32(37), i32(41)),
        {2: a2 + b2},
    ),
    Entry("elementwise.cu", "copy_vectors", 1, 64, (floats(50, 4), zeros(50, 4, dtype=f32), i32(50)), {1: None}),
    Entry(
        "elementwise.cu",
        "blur",
        8,
        128,
        (x, zeros(1000, dtype=f32), i32(1000)),
        {1: padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4},
        rtol=1e-5,
    ),
    Entry("elementwise.cu", "scale<float>", 8, 128, (x, i32(900)), {0: np.concatenate([x[:900] * 4, x[900:]])}),
    Entry("elementwise.cu", "scale<int, 3>", 1, 64, (count := np.arange(64, dtype=i32), i32(64)), {0: count * 8}),
    Entry(
        "elementwise.cu",
        "colours::to_grey",
        1,
        128,
        (pixels, zeros(100, dtype=np.uint8), i32(100)),
        {1: (pixels[:, :3].astype(int) @ [77, 150, 29] >> 8).astype(np.uint8)},
    ),
    Entry("elementwise.cu", "mandelbrot", (3, 2), (8, 8), (zeros(12, 20), i32(20), i32(12)), {0: mandelbrot(20, 12)}),
]
ELEMENTWISE[1].expected[1] = ELEMENTWISE[1].args[0] ** 2
ELEMENTWISE[3].expected[1] = ELEMENTWISE[3].args[0][:, ::-1]

# ---- blocks.cu -----------------------------------------------------------------------------------------
n1000 = ints(1000)
m24a, m24b = ints(24, 24, high=8).astype(f32), ints(24, 24, high=8).astype(f32)
bytes2000 = RANDOM.integers(0, 256, 2000).astype(np.uint8)
n64, life, logits = ints(64), ints(16, 16, high=2), floats(3, 150)
around = sum(np.roll(life, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - life
dense = np.where(RANDOM.random((40, 30)) < 0.2, ints(40, 30, high=9), 0).astype(f32)
sparse_starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(i32)
vector = ints(30, high=9).astype(f32)
weights = np.exp(logits.astype(float) - logits.max(1, keepdims=True))
BLOCKS = [
    Entry(
        "blocks.cu",
        "sum_blocks",
        8,
        128,
        (n1000, zeros(8), i32(1000)),
        {1: np.pad(n1000, (0, 24)).reshape(8, 128).sum(1)},
    ),
    Entry("blocks.cu", "transpose", (3, 3), (16, 16), (a2, zeros(41, 37, dtype=f32), i32(37), i32(41)), {1: a2.T}),
    Entry("blocks.cu", "matmul", (3, 3), (8, 8), (m24a, m24b, zeros(24, 24, dtype=f32), i32(24)), {2: m24a @ m24b}),
    Entry(
        "blocks.cu",
        "histogram",
        3,
        96,
        (bytes2000, zeros(16), i32(2000)),
        {1: np.bincount(bytes2000 // 16)},
        shared_mem=64,
    ),
    Entry("blocks.cu", "prefix_sum", 1, 64, (n64, zeros(64)), {1: np.cumsum(n64)}),
    Entry("blocks.cu", "exclusive_prefix_sum", 1, 32, (n64,), {0: np.cumsum(n64) - n64}),
    Entry("blocks.cu", "bitonic_sort", 1, 64, (n64,), {0: np.sort(n64)}),
    Entry(
        "blocks.cu",
        "softmax",
        3,
        64,
        (logits, zeros(3, 150, dtype=f32), i32(150)),
        {1: weights / weights.sum(1, keepdims=True)},
        rtol=2e-6,
    ),
    Entry(
        "blocks.cu",
        "game_of_life",
        (2, 2),
        (8, 8),
        (life, zeros(16, 16), i32(16)),
        {1: (around == 3) | ((life == 1) & (around == 2))},
    ),
    Entry(
        "blocks.cu",
        "multiply_sparse",
        2,
        32,
        (sparse_starts, np.nonzero(dense)[1].astype(i32), dense[dense != 0], vector, zeros(40, dtype=f32), i32(40)),
        {4: dense @ vector},
    ),
]
