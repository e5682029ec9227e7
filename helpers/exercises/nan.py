"""Checkers for the exercises of lessons 10 and 11."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from helpers.arrays.inputs import generator
from helpers.kernel import device

from .checks import checker, equal, require

# ---------------------------------------------------------------- lesson 10


@checker
def safe_kernel(answer: Callable) -> str:
    """10: answer(score [n], value [n, dim], keep bool [n]) -> softmax(kept scores) @ kept values, float32 [dim]."""
    for n, dim, kept in ((7, 4, 5), (12, 32, 6), (6, 3, 6)):
        score, value, keep = _attention_row(n, dim, kept)
        expected = _attend(score[None], value, keep[None])[0]
        what = f"{kept} of {n} positions kept"
        ask = partial(_ask, answer, keep)
        _close(ask(score=score, value=value), expected, what)
        for name, bad in (("NaN", math.nan), ("inf", math.inf)):
            _close(ask(score=score, value=_fill(value, ~keep, bad)), expected, f"{what}, {name} in the masked values")
            _close(ask(score=_fill(score, ~keep, bad), value=value), expected, f"{what}, {name} in the masked scores")
        _still_shows(ask(score=score, value=_fill(value, keep, math.nan)), "a value that is kept")
    return "masked positions can hold anything, and a NaN in a kept one still shows"


@checker
def safe_attention(answer: Callable) -> str:
    """10: answer(q [queries, dim], k [keys, dim], v [keys, dim], keep bool [keys]) -> attention over the kept keys."""
    for queries, keys, dim, kept in ((4, 9, 16, 6), (1, 5, 8, 2), (3, 4, 8, 4)):
        q, k, v = (_randn(rows, dim, seed) for seed, rows in enumerate((queries, keys, keys)))
        keep = _keep(keys, kept)
        what = f"{kept} of {keys} keys kept"
        ask = partial(_ask, answer, keep)
        expected = _attention(q, k, v, keep)
        _close(ask(q=q, k=k, v=v), expected, what)
        _close(ask(q=q, k=k, v=_fill(v, ~keep, math.nan)), expected, f"{what}, NaN in the masked rows of v")
        _close(ask(q=q, k=_fill(k, ~keep, math.nan), v=v), expected, f"{what}, NaN in the masked rows of k")
        _still_shows(ask(q=q, k=k, v=_fill(v, keep, math.nan)), "a row of v that is kept")
        _still_shows(ask(q=q, k=_fill(k, keep, math.nan), v=v), "a row of k that is kept")
        q[:, 0], k[:, 0] = 10, 10 * math.sqrt(dim)  # adds 100 to every score, and exp(100) is no fp32 number
        _close(ask(q=q, k=k, v=v), _attention(q, k, v, keep), f"{what}, scores near 100")
    return "no masked row can reach the result, and a NaN in a kept one still shows"


def _randn(rows, columns, seed):
    return torch.randn(rows, columns, generator=generator(seed)).to(device())


def _keep(n, kept):
    """bool [n] with `kept` True, scattered: a mask that only looks at the length is found out."""
    return (torch.randperm(n, generator=generator(n)) < kept).to(device())


def _attention_row(n, dim, kept):
    return _randn(1, n, 1)[0], _randn(n, dim, 2), _keep(n, kept)


def _fill(tensor, rows, value):
    """A copy of tensor with `value` in the rows that are True."""
    copy = tensor.clone()
    copy[rows] = value
    return copy


def _attend(scores, v, keep):
    """float64 [queries, dim]: the reference, which never touches a masked position."""
    return torch.stack([s[m].double().softmax(0) @ v[m].double() for s, m in zip(scores, keep, strict=True)])


def _attention(q, k, v, keep):
    return _attend(q.double() @ k.double().T / math.sqrt(q.shape[1]), v, keep.expand(len(q), -1))


def _ask(answer, keep, **inputs):
    """The answer to copies of the inputs and keep, which it has to leave as they are."""
    inputs["keep"] = keep
    copies = {name: tensor.clone() for name, tensor in inputs.items()}
    got = answer(*copies.values())
    for name, tensor in inputs.items():
        equal(copies[name], tensor, f"the {name} that you were given")
    return got


def _close(got, expected, what):
    """Require got to be a tensor within 1e-3 of expected, and free of NaN where expected is."""
    require(isinstance(got, torch.Tensor), f"{what}: expected a tensor, got {type(got).__name__}")
    require(got.shape == expected.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}")
    require(not got.isnan().any(), f"{what}: the result is {float(got.isnan().float().mean()):.0%} NaN")
    worst = float((got.double() - expected).abs().max())
    require(worst < 1e-3, f"{what}: the result is off by up to {worst:.3g}")


def _still_shows(got, where):
    require(isinstance(got, torch.Tensor) and got.isnan().all(), f"NaN in {where} should show in the result")


# ---------------------------------------------------------------- lesson 11


@checker
def slot_of(answer: Callable) -> str:
    """11: answer(pages int32 [n], position, page_size) -> the slot that holds this position, an int."""
    for page_size in (1, 4, 16):
        pages = torch.randperm(9, generator=generator(page_size)).int()[:4] + 3
        for position in (0, page_size - 1, page_size, 2 * page_size + page_size // 2, 4 * page_size - 1):
            expected = int(pages[position // page_size]) * page_size + position % page_size
            what = f"position {position} with pages {pages.tolist()} of {page_size}"
            equal(answer(pages, position, page_size), expected, what)
    return "every position finds its slot"


@checker
def padded_slots(answer: Callable) -> str:
    """11: answer(buffer [bucket], slots [batch]) fills the static buffer in place: the slots, then slot 0."""
    for dtype in (torch.int32, torch.int64):
        for batch, bucket in ((5, 8), (8, 8), (1, 4), (0, 2)):
            everything = torch.arange(900, 900 + bucket + 4, dtype=dtype, device=device())
            slots = torch.arange(31, 31 + batch, dtype=dtype, device=device())
            expected = everything.clone()
            expected[2 : 2 + bucket] = 0
            expected[2 : 2 + batch] = slots
            answer(everything[2 : 2 + bucket], slots)
            what = f"a batch of {batch} in a bucket of {bucket}: the buffer"
            equal(everything[2 : 2 + bucket], expected[2 : 2 + bucket], what)
            equal(everything, expected, f"a batch of {batch} in a bucket of {bucket}: with its neighbours in memory")
            equal(slots, expected[2 : 2 + batch], "the slots that you were given")
    return "the graph reads the new slots, and every row past the batch aims at slot 0"
