"""Run a program with a limit that holds, whatever the program does: in time, in the text kept of it, and in the
processes that it leaves behind.

psutil would find a child's processes as portably; it can't adopt a daemon, nor act once this process has been killed.
Both need a process of their own, see supervisor.py.
"""

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

KEPT = 64 * 1024  # bytes, of the start and of the end of what a program prints
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_SLICE = 0.1  # seconds between two looks whether the program has ended, while something else holds its output
_GRACE = 10.0  # seconds to die in; longer than supervisor.py takes to give up


def nameless_file() -> BinaryIO:
    """A file that two processes can share and that is gone when both have closed it.

    In memory where the system has such, so that no full disk is in the way.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("nameless"), "r+b")
    return tempfile.TemporaryFile()


class Kept:
    """The start and the end of a stream; the middle is counted and dropped."""

    def __init__(self):
        self.start, self.end, self.total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take in what came next."""
        self.total += len(data)
        room = KEPT - len(self.start)
        self.start += data[:room]
        self.end += data[room:]
        del self.end[:-KEPT]

    def text(self) -> str:
        """All of it, or what is kept, with a line between that says how much was cut."""
        cut = self.total - len(self.start) - len(self.end)
        note = f"\n[... {cut} bytes cut: only the first and the last {KEPT} of {self.total} bytes are kept ...]\n"
        return (bytes(self.start) + note.encode() * bool(cut) + bytes(self.end)).decode(errors="replace")


@dataclass(frozen=True)
class Ended:
    """status: exit status, negative for a signal; None for a program that was killed at its limit.

    stdout, stderr: text, "" for a stream that isn't a pipe. seconds: wall time.
    """

    status: int | None
    stdout: str
    stderr: str
    seconds: float


def run_supervised(command: Sequence[str | Path], limit: float, **options: object) -> Ended:
    """Run a command for at most `limit` seconds; what it has started ends with it. Returns Ended.

    It also ends when this process does, by whatever signal, and when an exception such as Ctrl-C interrupts the wait.
    options: of Popen. On systems other than Linux a daemon that the command starts can get away.
    """
    lifeline, hold = os.pipe()
    try:
        supervisor = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(os.getpid()), str(lifeline)]
        options["pass_fds"] = (*options.get("pass_fds", ()), lifeline)

        def stop(_):
            os.write(hold, b".")  # closing it is not enough: a fork of this process may hold it too

        return run([*supervisor, *command], limit, stop, start_new_session=True, **options)
    finally:
        os.close(hold)
        os.close(lifeline)


def run(command: Sequence[str | Path], limit: float, stop: Callable[[subprocess.Popen], object] = subprocess.Popen.kill,
        **options: object) -> Ended:  # fmt: skip
    """Run a command for at most `limit` seconds. Returns Ended. stop: called with the Popen to end it early."""
    begun = time.monotonic()
    child = subprocess.Popen(command, **options)
    pipes = {pipe: Kept() for pipe in (child.stdout, child.stderr) if pipe}
    try:
        in_time = _listen(child, pipes, begun + limit)
        seconds = time.monotonic() - begun
        _end(child, stop)
        _drain(pipes)
    finally:
        _end(child, stop)
        for pipe in pipes:
            pipe.close()
    stdout, stderr = (pipes[pipe].text() if pipe else "" for pipe in (child.stdout, child.stderr))
    return Ended(child.returncode if in_time else None, stdout, stderr, seconds)


def _end(child, stop):
    if child.poll() is None:
        stop(child)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
        child.kill()


def _listen(child, pipes, deadline):
    """Read until the program ends, which may be before its pipes do. Returns whether it ended before the deadline."""
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while child.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not selector.get_map():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(left)
            for key, _ in selector.select(min(left, _SLICE)) if selector.get_map() else ():
                if data := os.read(key.fd, 1 << 16):
                    pipes[key.fileobj].add(data)
                else:
                    selector.unregister(key.fileobj)
    return True


def _drain(pipes):
    """Read what an ended program has left in its pipes, which holds no more than they do."""
    for pipe, kept in pipes.items():
        os.set_blocking(pipe.fileno(), False)
        for _ in range(16):
            with contextlib.suppress(BlockingIOError):
                kept.add(os.read(pipe.fileno(), 1 << 16))
