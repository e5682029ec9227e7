"""Every checker is shown right and wrong answers, so that a new one can't come without."""

import importlib
import pkgutil

import pytest

from helpers import exercises
from helpers.exercises import checks

pytestmark = pytest.mark.no_gpu


def checkers():
    """(module, name) of each function that `checks.checker` made."""
    for module in pkgutil.iter_modules(exercises.__path__):
        loaded = importlib.import_module(f"{exercises.__name__}.{module.name}")
        for name, thing in vars(loaded).items():
            if hasattr(thing, "verdict") and thing.__module__ == loaded.__name__:
                yield module.name, name


@pytest.mark.parametrize(("module", "name"), list(checkers()))
def test_it_is_shown_right_and_wrong_answers(module, name):
    tests = importlib.import_module("test_checks" if module == "checks" else f"test_exercises_{module}")
    where = f"{tests.__name__}.py, of the checker {name}"
    assert len(tests.RIGHT.get(name, ())) >= 1, f"RIGHT in tests/exercises/{where}, has at least one right answer"
    assert len(tests.WRONG.get(name, ())) >= 2, f"WRONG in tests/exercises/{where}, has at least two wrong answers"


def test_the_checkers_are_found():
    assert ("checks", "blocks_needed") in list(checkers()) and ("nan", "safe_kernel") in list(checkers())
    assert all(callable(checks.checker(function).verdict) for function in (len, print))
