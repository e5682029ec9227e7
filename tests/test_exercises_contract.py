"""The checkers of lessons 14, 23, 24 and 32 accept the solution and refuse answers known to be wrong."""

import pytest
import torch

from helpers import exercises_contract as exercises
from helpers import inputs
from helpers.reference import topk_reference

# ---------------------------------------------------------------- lesson 23


def make_test(families=tuple(inputs.SCORE_FAMILIES), lengths=(6000, 4000, 500), long=True, k=2048, forgive=0,
              behind=True, ordered=False):  # fmt: skip
    """A test of top-k kernels as a reader may write it, with holes on request."""

    def test(select):
        batches = [(inputs.scores(family, len(lengths), 6000), lengths) for family in families]
        batches += [(inputs.scores("one fp16 bin", 1, 131072), [131072])] if long else []
        for scores, lens in batches:
            chosen = select(scores, torch.tensor(lens, dtype=torch.int32), k)
            for row, length, positions in zip(scores, lens, chosen, strict=True):
                right = topk_reference(row, length, k).sort().values
                first = positions[: len(right)] if behind else positions[positions >= 0]
                found = first if ordered else first.sort().values
                wrong = int((~torch.isin(right, found)).sum())
                if wrong > forgive or (not forgive and not torch.equal(found, right)):
                    return False
                if behind and bool((positions[len(right) :] != -1).any()):
                    return False
        return True

    return test


RIGHT = {
    "missing_test": [make_test()],
    "safe_to_read": [lambda slots, n, size, who: who == "check" or bool(((slots[:n] >= 0) & (slots[:n] < size)).all())],
}
WRONG = {
    "missing_test": {
        "Gaussian rows only": make_test(families=("randn",)),
        "no -inf": make_test(families=[name for name in inputs.SCORE_FAMILIES if name != "many -inf"]),
        "no NaN": make_test(families=[name for name in inputs.SCORE_FAMILIES if name != "NaN"]),
        "one length": make_test(lengths=(6000, 6000)),
        "no short row": make_test(lengths=(6000, 4000)),
        "no long row": make_test(long=False),
        "five forgiven": make_test(forgive=5),
        "-1 dropped": make_test(behind=False),
        "order demanded": make_test(ordered=True),
        "always": lambda select: True,
        "never": lambda select: False,
        "not a bool": lambda select: 1,
        "nothing": lambda select: None,
    },
    "safe_to_read": {
        "no upper end": lambda slots, n, size, who: who == "check" or bool((slots[:n] >= 0).all()),
        "no lower end": lambda slots, n, size, who: who == "check" or bool((slots[:n] < size).all()),
        "the whole list": lambda slots, n, size, who: who == "check" or bool(((slots >= 0) & (slots < size)).all()),
        "one past the end": lambda slots, n, size, who: who == "check"
        or bool(((slots[:n] >= 0) & (slots[:n] <= size)).all()),
        "slot 0 refused": lambda slots, n, size, who: who == "check"
        or bool(((slots[:n] > 0) & (slots[:n] < size)).all()),
        "one entry too few": lambda slots, n, size, who: who == "check"
        or bool(((slots[: n - 1] >= 0) & (slots[: n - 1] < size)).all()),
        "nobody checks": lambda slots, n, size, who: bool(((slots[:n] >= 0) & (slots[:n] < size)).all()),
        "everybody checks": lambda slots, n, size, who: True,
        "nothing": lambda slots, n, size, who: None,
    },
}


@pytest.mark.parametrize("name", RIGHT)
def test_accepts_the_solution(name):
    for answer in RIGHT[name]:
        verdict = getattr(exercises, name).verdict(answer)
        assert verdict.ok, verdict.message


@pytest.mark.parametrize(("name", "mistake"), [(name, mistake) for name in WRONG for mistake in WRONG[name]])
def test_refuses_a_wrong_answer(name, mistake):
    verdict = getattr(exercises, name).verdict(WRONG[name][mistake])
    assert not verdict.ok and verdict.message


@pytest.mark.parametrize("wrong", exercises.WRONG_SELECTIONS)
def test_each_wrong_selection_of_lesson_23_is_wrong(wrong):
    assert make_test()(exercises.selection("exact"))
    assert not make_test()(exercises.WRONG_SELECTIONS[wrong])
