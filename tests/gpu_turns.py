"""Turns on the GPU for test processes that run side by side.

What an earlier kernel left in shared memory is gone after a switch to another process. So tests that ask for it, those
marked `alone_on_gpu`, have the GPU for themselves: one worker runs all of them, one after the other, while the other
workers do what needs no GPU. All other tests share it.
"""

import fcntl
import os
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from helpers.kernel import device
from helpers.lessons.files import NOTEBOOKS
from helpers.operations.leave_in_shared import left_in_shared

ALONE, SHARED, NO_GPU = range(3)
# A lesson is alone if it leaves something in shared memory, or runs programs or a server that do.
LEAVES = (f"{left_in_shared.__name__}(", "helpers.tools", "helpers.small_server")
CPU_PARAMETERS = {"cpu", "fast", "reverse", "random", "checked"}


def turn_of(item):
    """ALONE, SHARED or NO_GPU: how an item uses the GPU. Without a device of its own, it uses the one that there is."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if item.get_closest_marker("no_gpu") or parameters.get("device", parameters.get("backend")) in CPU_PARAMETERS:
        return NO_GPU
    if item.get_closest_marker("alone_on_gpu"):
        return ALONE
    if "lesson" in parameters:
        return ALONE if leaves_something(NOTEBOOKS / f"{parameters['lesson']}.ipynb") else SHARED
    return NO_GPU if on_cpu(item) else SHARED


def leaves_something(lesson):
    """Whether a lesson needs to be alone on the GPU."""
    return any(word in lesson.read_text() for word in LEAVES)


def on_cpu(item):
    """nbmake's run of a lesson that needs to be alone: it has the cells that test_lessons runs on the GPU, unsolved and
    solved, and would only keep the others waiting."""
    return item.path.suffix == ".ipynb" and leaves_something(item.path)


def _names_file(controller):
    """Where workers leave the names of the tests that are alone, for the process that has started them."""
    return Path(tempfile.gettempdir(), f"cuda-bug-lessons.{controller}.alone")


class OneWorkerForThoseAlone(LoadScopeScheduling):
    """Hands the tests that are alone to one worker, as one piece, and all others one by one to whoever is free.

    xdist's own groups would do; but it marks their members in a field that pytest 9.2 no longer reads.
    """

    def __init__(self, config, log=None):
        super().__init__(config, log)
        self._alone = None

    def _split_scope(self, nodeid):
        if self._alone is None:
            self._alone = set(_names_file(os.getpid()).read_text().splitlines())
            _names_file(os.getpid()).unlink()
        return "alone on the GPU" if nodeid in self._alone else nodeid


class Turns:
    """The plugin. Two lock files: whoever comes takes the gate, then the GPU, then opens the gate again; so one who
    waits to be alone lets nobody else in before it."""

    def __init__(self, folder=None):
        folder = Path(folder or tempfile.gettempdir())
        self._gate, self._gpu = (open(folder / f"cuda-bug-lessons.{name}", "a") for name in ("gate", "gpu"))
        self._held = NO_GPU

    def take(self, turn):
        """Hold the GPU as `turn` says; without waiting if it is held so already."""
        if turn == self._held:
            return
        self.give_back()
        if turn == NO_GPU:
            return
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._gpu, fcntl.LOCK_EX if turn == ALONE else fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        self._held = turn

    def give_back(self):
        fcntl.flock(self._gpu, fcntl.LOCK_UN)
        self._held = NO_GPU

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        """Tests that are alone first, those that share the GPU last, so that no worker waits while there is other work.

        In a worker, leave the names of those that are alone for the process that hands out the tests.
        """
        if device() != "cuda":
            return
        items.sort(key=lambda item: (ALONE, NO_GPU, SHARED).index(turn_of(item)))
        if hasattr(config, "workerinput"):
            alone = [item.nodeid for item in items if turn_of(item) == ALONE]
            _names_file(os.getppid()).write_text("\n".join(alone))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config, log):
        return OneWorkerForThoseAlone(config, log) if device() == "cuda" else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outside the test's time limit: waiting is not its fault
    def pytest_runtest_protocol(self, item, nextitem):
        if device() != "cuda":
            return (yield)
        self.take(turn_of(item))
        try:
            with pytest.MonkeyPatch.context() as patch:
                if on_cpu(item):
                    patch.setenv("KERNEL_DEVICE", "cpu")
                return (yield)
        finally:
            if self._held != ALONE or nextitem is None or turn_of(nextitem) != ALONE:
                self.give_back()
