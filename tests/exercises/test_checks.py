"""The machinery under every exercise: it must refuse wrong answers and never raise in front of a reader."""

import math

import pytest
import torch
from answers import accept_and_refuse, named

from helpers.exercises import checks


@checks.checker
def doubled(answer):
    for size in (3, 5):
        x = torch.arange(1, size + 1)
        checks.equal(answer(x), 2 * x, f"{size} numbers")
    return "every number is doubled"


def test_right_answer(capsys):
    assert doubled.verdict(lambda x: x + x).ok
    doubled(lambda x: x * 2, strict=True)
    assert capsys.readouterr().out == "right: every number is doubled\n"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (..., "replace the ..."),
        (None, "replace the ..."),
        (lambda x: None, "nothing is returned yet"),
        (lambda x: ..., "nothing is returned yet"),
        (lambda x: x, "3 numbers at [0]: got 1, expected 2"),
        (lambda x: torch.tensor([2, 4, 6]), "5 numbers: shape: got (3,), expected (5,)"),
        (lambda x: 2.0 * x, "dtype: got torch.float32, expected torch.int64"),
        (lambda x: [2, 4, 6], "expected a tensor, got list"),
        (lambda x: 1 / 0, "it raised ZeroDivisionError"),
    ],
)
def test_wrong_answers_are_refused_and_do_not_raise(answer, message, capsys):
    doubled(answer)
    out = capsys.readouterr().out
    assert out.startswith("not yet: ") and message in out
    assert not doubled.verdict(answer)
    with pytest.raises(AssertionError, match="not yet"):
        doubled(answer, strict=True)


@pytest.mark.parametrize(("got", "expected"), [(3, 4), (True, 1), ({1}, {2}), ("a", "b"), ([3], 3)])
def test_equal_refuses_other_values(got, expected):
    with pytest.raises(checks.NotYet):
        checks.equal(got, expected, "value")


RIGHT = {"blocks_needed": [lambda elements, threads: -(-elements // threads)]}
WRONG = {
    "blocks_needed": named(
        lambda elements, threads: elements // threads,
        lambda elements, threads: elements // threads + 1,
        lambda elements, threads: (elements + 31) // threads,
        lambda elements, threads: round(elements / threads + 0.49),
    )
}

test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(checks, RIGHT, WRONG)


def test_equal_takes_nan_for_nan_and_nothing_else():
    nan = torch.tensor([1.0, math.nan])
    checks.equal(nan, nan.clone(), "row")
    with pytest.raises(checks.NotYet, match=r"\[1\]"):
        checks.equal(torch.tensor([1.0, 0.0]), nan, "row")
    checks.equal(3, 3, "count")
    checks.equal(torch.tensor(3), 3, "count")


@pytest.mark.parametrize(
    ("prediction", "actual", "text"),
    [
        (None, 4, "n: 4 (you made no prediction)"),
        (4, 4, "n: 4, as you predicted"),
        (5, torch.tensor(4), "n: 4; you predicted 5"),
        (math.nan, torch.tensor(math.nan), "n: nan, as you predicted"),
        ([1, 2], torch.tensor([1, 2]), "n: [1, 2], as you predicted"),
        ((1, 2), [1, 3], "n: [1, 3]; you predicted (1, 2)"),
        ({0, 1}, {1, 0}, "n: {0, 1}, as you predicted"),
        (7, {1}, "n: {1}; you predicted 7"),
    ],
)
def test_reveal(prediction, actual, text, capsys):
    checks.reveal(prediction, actual, "n")
    assert capsys.readouterr().out == text + "\n"


def test_reveal_goes_through_a_dict(capsys):
    checks.reveal({"0 * nan": "finite"}, {"0 * nan": "nan", "max": 1}, "")
    assert capsys.readouterr().out == "0 * nan: nan; you predicted finite\nmax: 1 (you made no prediction)\n"


def test_only_what_a_reader_solves_in_a_notebook_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path))
    doubled(lambda x: 2 * x)
    monkeypatch.setattr(checks, "get_ipython", lambda: object())
    doubled(lambda x: x)
    doubled(lambda x: 2 * x, strict=True)
    assert checks.solved_exercises() == set()
    doubled(lambda x: 2 * x)
    assert checks.solved_exercises() == {"doubled"}


def test_where_nothing_can_be_remembered_the_verdict_stands(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(checks, "get_ipython", lambda: object())
    doubled(lambda x: 2 * x)
    said = capsys.readouterr().out.splitlines()
    assert "can't be remembered, see KERNEL_CACHE: " in said[0] and said[1].startswith("right: ")
    assert checks.solved_exercises() == set()
