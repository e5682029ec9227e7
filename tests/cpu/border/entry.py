"""One entry of the table, and what its arguments are drawn from."""

from dataclasses import dataclass

import numpy as np

i32, f32 = np.int32, np.float32
RANDOM = np.random.default_rng(11)


@dataclass(frozen=True)
class Entry:
    """One launch. expected: position of an argument -> what it holds afterwards. rtol: 0 for bit-equal results."""

    file: str
    kernel: str
    grid: object
    block: object
    args: tuple
    expected: dict
    shared_mem: int = 0
    rtol: float = 0.0
    writes_freely: int = -1  # an argument whose content depends on the order of the threads

    def __str__(self):
        return f"{self.file[:-3]}-{self.kernel}"


def ints(*shape, low=0, high=100):
    return RANDOM.integers(low, high, shape).astype(i32)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(f32)


def zeros(*shape, dtype=i32):
    return np.zeros(shape, dtype)


def rows(*values, dtype):
    return np.stack([np.broadcast_to(np.asarray(value), np.shape(values[0])) for value in values]).astype(dtype)


def mask_of(condition):
    return sum(1 << int(i) for i in np.nonzero(condition)[0])
