"""Checkers of the exercises of lesson 30."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import torch

from helpers import cpu
from helpers.kernel import compile_cuda, launch

from .checks import NotYet, checker, equal, require

RING = 64  # threads of the exercise's kernel, one an element
RING_KERNEL = """
extern "C" __global__ void ring(const int* x, int* y, int rounds) {
  __shared__ int tile[64];
  const int i = threadIdx.x;
  tile[i] = x[i];
  for (int round = 0; round < rounds; ++round) {
    const int left = tile[(i + 63) % 64];
    tile[i] += left;
  }
  y[i] = tile[i];
}
"""


@checker
def count_short(answer: Callable) -> str:
    """answer(rows, k, cap) -> the unwritten slots of each row that is short. rows: [(above, in_bin), ...]."""
    # As in every threshold bin, above < k <= above + in_bin.
    rows = [(924, 1124), (1023, 1025), (1024, 1600), (1500, 1100), (0, 3000), (889, 1536)]
    cases = (
        (rows, 2048, 1024, [100, 1, 1024, 135]),
        ([(924, 1124), (1023, 1025), (0, 1600), (500, 524)], 1024, 1024, []),
        ([(3, 13), (9, 8), (8, 8), (1, 30)], 16, 8, [5, 7]),
        ([], 2048, 1024, []),
    )
    for given, k, cap, expected in cases:
        got = answer(list(given), k, cap)
        equal(got, expected, f"k={k}, a buffer of {cap}, rows {given}")
    return "each short row is counted, with the slots that it lacks"


def _ring_reference(x, rounds):
    for _ in range(rounds):
        x = x + x.roll(1)
    return x


def _without_barriers(source):
    """The text without barriers, comments and white space."""
    source = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
    return re.sub(r"\s", "", source).replace("__syncthreads();", "").replace("__syncwarp();", "")


@checker
def race_free(source: str) -> str:
    """source: a kernel `ring(const int* x, int* y, int rounds)` in which 64 threads add their left neighbour's value
    to their own, `rounds` times: RING_KERNEL and barriers. Right in every order of threads, and silent under ASan and
    TSan where they are installed."""
    require(isinstance(source, str) and "\n" in source, "the source should be the text of a kernel")
    ring = compile_cuda(source, ["ring"], device="cpu").get_function("ring")
    x = torch.arange(RING, dtype=torch.int32) % 7
    modes = [("fast", order, rounds) for rounds in (0, 1, 3, 20) for order in cpu.ORDERS]
    missing = cpu.missing_modes()
    modes += [(mode, "forward", rounds) for mode, rounds in (("checked", 20), ("tsan", 3)) if mode not in missing]
    for mode, order, rounds in modes:
        y = torch.full_like(x, -1)
        try:
            with cpu.mode(mode, order=order, seed=3):
                launch(ring, 1, RING, (x, y, np.int32(rounds)))
        except cpu.KernelFault as fault:
            line = f" at line {fault.line}" if fault.line else ""
            detail = str(fault).rpartition("): ")[2]
            raise NotYet(f"mode {mode} reports a {fault.kind}{line}: {detail}") from None
        equal(y, _ring_reference(x, rounds), f"{rounds} rounds, threads in {order} order")
    only_barriers = _without_barriers(source) == _without_barriers(RING_KERNEL)
    require(only_barriers, "the values are right, but the exercise is to only add barriers")
    return "right in every order, and no race"
