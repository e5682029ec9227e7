"""What the checkers of every lesson have to show: they accept what is right, and refuse what is wrong, and say why."""

import pytest


def accept_and_refuse(exercises, right, wrong):
    """(test_accepts_the_solution, test_refuses_a_wrong_answer) for a module of checkers.

    right: name of a checker -> answers. wrong: name of a checker -> what is wrong -> the answer, or (the answer,
    words): the message then has them, or one of them where they are separated by "|".
    """

    @pytest.mark.parametrize("name", right)
    def accepts(name):
        for answer in right[name]:
            verdict = getattr(exercises, name).verdict(answer)
            assert verdict.ok, verdict.message

    @pytest.mark.parametrize(("name", "mistake"), [(name, mistake) for name in wrong for mistake in wrong[name]])
    def refuses(name, mistake):
        found = wrong[name][mistake]
        answer, words = found if isinstance(found, tuple) else (found, "")
        verdict = getattr(exercises, name).verdict(answer)
        assert not verdict.ok and verdict.message
        assert any(part in verdict.message for part in words.split("|")), verdict.message

    return accepts, refuses


def named(*answers):
    """Wrong answers by number: what is wrong with each stands in the answer itself."""
    return {f"mistake {number}": answer for number, answer in enumerate(answers, 1)}
