"""A small process that runs a command and ends it, with everything that it started, once its parent wants that or is
gone.

    python -I -S supervisor.py PARENT LIFELINE COMMAND...

PARENT: process id. LIFELINE: descriptor of a pipe's read end; a byte in it, or the end of the other side, means stop.
It ends as the command did, with its exit status or by its signal.

It is a process of its own, because a thread inside the command can't run while a C extension holds Python's lock, and
a signal at the parent's death reaches only one process, not those that it started. On Linux it adopts every orphan
below it, so that a daemon is found too; elsewhere it reaches the command's process group. It imports nothing of this
package, so that it is there within milliseconds.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_LOOK_AGAIN = 0.2  # seconds; a process forked off the parent may hold the pipe open, but can't be the parent
_GIVE_UP = 8.0  # seconds; a driver call can keep a killed process for a while


def _prctl(option, value):
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _become(command, supervisor):
    """In the forked half: run the command, in a process group of its own."""
    os.setpgid(0, 0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it ended before the line above
        os._exit(1)
    for name in ("SIGPIPE", "SIGXFSZ", "SIGCHLD"):  # which Python changes, and a program inherits
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _descendants():
    """Ids of all processes below this one, where /proc tells."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            parents[int(path.parent.name)] = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


def _reap(status, command):
    """Take leave of every child that has ended. Returns the command's wait status, or None while it runs."""
    with contextlib.suppress(ChildProcessError):
        while True:
            process, ended = os.waitpid(-1, os.WNOHANG)
            if not process:
                break
            status = ended if process == command else status
    return status


def _end_all(status, command):
    """Kill what is left. Returns the command's wait status, or None if it doesn't go."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(command, signal.SIGKILL)
    patience = time.monotonic() + _GIVE_UP
    while time.monotonic() < patience:
        left = _descendants()
        for process in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        status = _reap(status, command)
        if status is not None and not left:
            return status
        time.sleep(0.005)
    return status


def _end_like(status):
    """End with the command's exit status, or by its signal."""
    if status is None:
        os._exit(1)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def main(parent: int, lifeline: int, command: Sequence[str]) -> None:
    """Run the command until it ends, the parent dies or the lifeline closes; end all it started, then end like it.

    parent: the process id of who waits. lifeline: the descriptor of a pipe that it holds open.
    """
    os.set_inheritable(lifeline, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    bell, clapper = os.pipe()
    os.set_blocking(bell, False)
    os.set_blocking(clapper, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(clapper, warn_on_full_buffer=False)
    supervisor = os.getpid()
    child = os.fork()
    if not child:
        _become(command, supervisor)
    status = None
    while status is None and os.getppid() == parent:
        ready, _, _ = select.select([lifeline, bell], [], [], _LOOK_AGAIN)
        if lifeline in ready:
            break
        if bell in ready:
            os.read(bell, 4096)
        status = _reap(status, child)
    _end_like(_end_all(status, child))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
