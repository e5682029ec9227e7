"""Checkers of the exercises of lesson 30."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from . import cpu
from .checks import NotYet, checker, equal, require
from .kernel import compile_cuda, launch

RING = 64  # threads of the exercise's kernel, one an element


@checker
def count_short(answer: Callable) -> str:
    """answer(rows, k, cap) -> the unwritten slots of each row that is short. rows: [(above, in_bin), ...]."""
    rows = [(924, 1025), (1023, 1025), (1024, 1600), (1500, 1100), (0, 3000), (889, 1536)]
    cases = (
        (rows, 2048, 1024, [100, 1, 1024, 135]),
        (rows[:4], 1024, 1024, []),
        ([(3, 9), (9, 8), (2, 8), (1, 30)], 16, 8, [5, 7]),
        ([], 2048, 1024, []),
    )
    for given, k, cap, expected in cases:
        got = answer(list(given), k, cap)
        equal(got, expected, f"k={k}, a buffer of {cap}, rows {given}")
    return "each short row is counted, with the slots that it lacks"


def _ring_reference(x: torch.Tensor, rounds: int) -> torch.Tensor:
    for _ in range(rounds):
        x = x + x.roll(1)
    return x


@checker
def race_free(source: str) -> str:
    """source: a kernel `ring(const int* x, int* y, int rounds)` in which 64 threads add their left neighbour's value
    to their own, `rounds` times. Right in every order of threads, and silent under TSan where that is installed."""
    require(isinstance(source, str) and "\n" in source, "the source should be the text of a kernel")
    ring = compile_cuda(source, ["ring"], device="cpu").get_function("ring")
    x = torch.arange(RING, dtype=torch.int32) % 7
    modes = [("fast", order, rounds) for rounds in (0, 1, 3) for order in cpu.ORDERS]
    modes += [] if cpu.available_modes()["tsan"] else [("tsan", "forward", 3)]
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
    return "right in every order, and no race"
