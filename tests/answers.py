"""The two tests that the checkers of every lesson share: they accept what is right, and refuse what is wrong."""

import pytest


def accept_and_refuse(exercises, right, wrong):
    """(test_accepts_the_solution, test_refuses_a_wrong_answer) for a module of checkers.

    right: name of a checker -> answers. wrong: name of a checker -> what is wrong -> answer.
    """

    @pytest.mark.parametrize("name", right)
    def accepts(name):
        for answer in right[name]:
            verdict = getattr(exercises, name).verdict(answer)
            assert verdict.ok, verdict.message

    @pytest.mark.parametrize(("name", "mistake"), [(name, mistake) for name in wrong for mistake in wrong[name]])
    def refuses(name, mistake):
        verdict = getattr(exercises, name).verdict(wrong[name][mistake])
        assert not verdict.ok and verdict.message

    return accepts, refuses
