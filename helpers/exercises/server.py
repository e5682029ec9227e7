"""Checkers of the exercises of lesson 31."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from helpers.small_server.engine import PADDING_LENGTH, row_lengths

from .checks import checker, equal, require


@checker
def lengths_of_rows(answer: Callable[[int, int], Sequence[int]]) -> str:
    """31: answer(seq_len, drafts) -> how many tokens each of a request's drafts + 1 rows attends to."""
    for drafts in (2, 0, 1, 5):
        for seq_len in (100, drafts + 1, PADDING_LENGTH, 3):
            got = answer(seq_len, drafts)
            require(got is not None and got is not ..., "nothing is returned yet")
            expected = row_lengths(torch.tensor([seq_len]), drafts + 1).clamp(min=0)[0].tolist()
            padding = " (a padding row)" if seq_len == PADDING_LENGTH else ""
            equal(list(got), expected, f"seq_len {seq_len}{padding}, {drafts} drafts")
    return "also for padding rows, whose lengths stop at 0"


@checker
def admitted(answer: Callable[[list[int], int, int], int]) -> str:
    """31: answer(needs, places, free) -> how many of the waiting requests start now, first come, first served."""
    rng = random.Random(31)
    cases = [([5, 3, 9, 1], 4, 9), ([5, 3, 1], 2, 100), ([9, 1, 1], 3, 8), ([], 4, 9), ([4, 4], 2, 8), ([3], 0, 9)]
    cases += [([rng.randint(1, 9) for _ in range(6)], rng.randint(0, 6), rng.randint(0, 40)) for _ in range(200)]
    for needs, places, free in cases:
        expected, left = 0, free
        while expected < min(len(needs), places) and needs[expected] <= left:
            left -= needs[expected]
            expected += 1
        equal(answer(list(needs), places, free), expected, f"needs {needs}, {places} places, {free} free pages")
    return "nobody overtakes, and no page is promised twice"
