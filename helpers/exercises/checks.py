"""Checks for the exercises and predictions of the lessons.

A checker is a function that takes the reader's answer and calls `require` and `equal` until one is not met:

    @checker
    def padded_indices(answer):
        for batch, bucket in ((5, 8), (1, 4)):
            equal(answer(batch, bucket), expected(batch, bucket), f"batch {batch} in a bucket of {bucket}")
        return "rows past the batch aim at slot 0"

    padded_indices(answer)               # in an exercise: prints "right: ..." or "not yet: ...", never raises
    padded_indices(answer, strict=True)  # in its solution: AssertionError unless it is right
    padded_indices.verdict(answer)       # in a test: the Verdict, nothing printed
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from IPython import get_ipython

from helpers.cpu.build import cache_folder
from helpers.cpu.faults import CacheError


@dataclass(frozen=True)
class Verdict:
    """What a checker found. `ok`: the answer is right. `message`: one line for the reader."""

    ok: bool
    message: str

    def __bool__(self):
        return self.ok

    def __str__(self):
        return f"{'right' if self.ok else 'not yet'}: {self.message}"


class NotYet(Exception):
    """Raised inside a checker: the answer is not right yet. The text is for the reader."""


def require(condition: Any, message: str) -> None:
    """Raise NotYet(message) unless condition holds."""
    if not condition:
        raise NotYet(message)


def equal(got: Any, expected: Any, what: str) -> None:
    """Raise NotYet unless got equals expected, naming the first place that differs.

    A tensor must agree in shape, dtype and every element (NaN equals NaN). Anything else is compared with ==,
    after one-element tensors became numbers. A stub's `...` or None is an answer that is not there yet.
    """
    if got is ... or got is None:
        raise NotYet(f"{what}: nothing is returned yet")
    if not isinstance(expected, torch.Tensor):
        got = _plain(got)
        require(isinstance(got, bool) == isinstance(expected, bool), _differs(got, expected, what))
        require(got == expected, _differs(got, expected, what))
        return
    require(isinstance(got, torch.Tensor), f"{what}: expected a tensor, got {type(got).__name__}")
    require(got.shape == expected.shape, _differs(tuple(got.shape), tuple(expected.shape), f"{what}: shape"))
    require(got.dtype == expected.dtype, _differs(got.dtype, expected.dtype, f"{what}: dtype"))
    got, expected = got.detach().cpu(), expected.detach().cpu()
    same = got == expected
    if got.is_floating_point():
        same |= got.isnan() & expected.isnan()
    if not same.all():
        place = tuple((~same).nonzero()[0].tolist())
        where = f" at {list(place)}" if place else ""
        raise NotYet(_differs(got[place].item(), expected[place].item(), what + where))


def _differs(got, expected, what):
    return f"{what}: got {got!r}, expected {expected!r}"


def checker(check: Callable[..., str | None]) -> Callable[..., None]:
    """Make a checker of a function that calls `require` and `equal` and returns what the answer now does.

    The result prints its verdict, and remembers an exercise that a reader solved in a notebook (`solved_exercises`).
    With strict=True, as in a solution, it raises AssertionError instead of printing "not yet", and remembers nothing.
    `.verdict(...)` returns the Verdict and prints nothing.
    """

    def judge(answers: tuple[Any, ...], options: dict[str, Any]) -> tuple[Verdict, Exception | None]:
        if any(answer is ... or answer is None for answer in answers):
            return Verdict(False, "replace the ... with your answer"), None
        try:
            return Verdict(True, check(*answers, **options) or "that is it"), None
        except NotYet as reason:
            return Verdict(False, str(reason)), None
        except Exception as error:  # whatever the reader's code raises is an answer that is not right yet
            return Verdict(False, f"it raised {type(error).__name__}: {error}{_line_of_cell(error)}"), error

    @functools.wraps(check)
    def run(*answers: Any, strict: bool = False, **options: Any) -> None:
        found, error = judge(answers, options)
        if strict and not found:
            raise AssertionError(str(found)) from error
        if found and not strict and get_ipython():
            _remember(check.__name__)
        print(found)

    run.verdict = lambda *answers, **options: judge(answers, options)[0]
    return run


def solved_exercises() -> set[str]:
    """Names of the checkers that this reader's answers have satisfied, in any session on this machine."""
    return {path.name for path in _solved_folder().glob("*")}


def _remember(name):
    try:
        _solved_folder().mkdir(parents=True, exist_ok=True)
        (_solved_folder() / name).touch()
    except (OSError, CacheError) as error:
        print(f"(that you solved it can't be remembered, see KERNEL_CACHE: {error})")


def _solved_folder():
    return cache_folder() / "solved"


def _line_of_cell(error):
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if "ipykernel" in frame.filename]
    return f" (line {lines[-1]} of your cell)" if lines else ""


def reveal(prediction: Any, actual: Any, what: str) -> None:
    """Print what really happened beside the reader's prediction. Never raises.

    prediction: None or ... while there is none; a value like `actual`; or a dict with the same keys.
    Tensors and NumPy values are compared by what they hold.
    """
    if isinstance(actual, dict):
        guesses = prediction if isinstance(prediction, dict) else {}
        for key, value in actual.items():
            reveal(guesses.get(key), value, f"{what}, {key}" if what else str(key))
        return
    actual, prediction = _plain(actual), _plain(prediction)
    if prediction is None or prediction is ...:
        print(f"{what}: {actual} (you made no prediction)")
    elif _same(prediction, actual):
        print(f"{what}: {actual}, as you predicted")
    else:
        print(f"{what}: {actual}; you predicted {prediction}")


def _plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


def _same(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (set, frozenset)) or isinstance(b, (set, frozenset)):
        return set(a) == set(b) if hasattr(a, "__iter__") and hasattr(b, "__iter__") else False
    both_nan = isinstance(a, float) and isinstance(b, float) and a != a and b != b
    return both_nan or bool(a == b)


# ---------------------------------------------------------------- exercises, in the order of the lessons


@checker
def blocks_needed(answer: Callable[[int, int], int]) -> str:
    """00: answer(elements, threads) -> blocks of `threads` threads that give each element one thread."""
    cases = ((1, 32, 1), (32, 32, 1), (33, 32, 2), (1000, 256, 4), (1024, 256, 4), (0, 32, 0), (257, 256, 2))
    for elements, threads, blocks in (*cases, (1025, 256, 5)):
        equal(answer(elements, threads), blocks, f"elements={elements}, threads={threads}")
    return "every element has a thread, and no block is idle"
