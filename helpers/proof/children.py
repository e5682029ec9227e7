"""Run something that may crash in a child process, and get back what happened as an object.

An illegal access ends a CUDA context: every later call in that process fails with the same error. A child takes the
context with it; the notebook's own kernel goes on.
"""

import contextlib
import dataclasses
import inspect
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from helpers.machine import ROOT
from helpers.processes import nameless_file, run_supervised


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a child process did.

    status: "finished" | "raised" | "timed out" | "died" (ended by a signal or without a word).
    value: what the function returned. type, message: of the exception. kernel, line: where, if the report says so.
    tool_text: the text that the sanitizer, the CUDA driver or Python left; of a very long one the start and the end,
    and how much was cut between. seconds: wall time of the child.
    """

    status: str
    value: object = None
    type: str = ""
    message: str = ""
    kernel: str | None = None
    line: int | None = None
    tool_text: str = ""
    seconds: float = 0.0

    def __str__(self):
        if self.status == "finished":
            return f"finished: {self.value!r}"
        where = f" in {self.kernel}" if self.kernel else ""
        where += f", line {self.line}" if self.line else ""
        return f"{self.status}{where}: {self.type}: {self.message}"


def run_in_child(function: Callable[..., Any], *args: object, device: str | None = None, mode: str | None = None,
                 timeout: float = 120, environment: Mapping[str, str] | None = None,
                 **kwargs: object) -> Outcome:  # fmt: skip
    """Call function(*args, **kwargs) in a fresh Python process and return its Outcome; never raises what it raises.

    function: importable, or defined in a notebook (then its source travels, and it imports what it needs itself).
    Arguments and result are pickled: tensors should be on the CPU. device, mode: the child's KERNEL_DEVICE and
    KERNEL_MODE. environment: further environment variables. timeout: seconds until the child is killed.

    Whatever the child has started and left running ends with it, and the child ends with this process. What it prints
    to stdout is dropped. Raises TypeError for a function or an argument that can't travel, ValueError for a timeout
    that isn't a positive number.
    """
    job = pickle.dumps({"function": _portable(function), "arguments": _pickled(function, args, kwargs)})
    if not (isinstance(timeout, (int, float)) and 0 < timeout < math.inf):
        raise ValueError(f"timeout is {timeout!r}; it should be a positive number of seconds")
    env = os.environ | {"CUDA_LAUNCH_BLOCKING": "1", "PYTHONPATH": _python_path()} | (environment or {})
    env |= {"KERNEL_DEVICE": device} if device else {}
    env |= {"KERNEL_MODE": mode} if mode else {}
    try:
        with nameless_file() as given, nameless_file() as report:
            given.write(job)
            given.seek(0)
            command = [sys.executable, "-m", "helpers.proof.child", str(report.fileno())]
            ended = run_supervised(
                command, timeout, env=env, pass_fds=(report.fileno(),), stdin=given, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )  # fmt: skip
            return _outcome(ended, report, timeout)
    except OSError as error:
        return Outcome("died", type=type(error).__name__, message=f"the child could not be started: {error}")


def _outcome(ended, report, timeout):
    """The Outcome of a child, from how it ended and what its report says."""
    left = {"tool_text": ended.stderr, "seconds": ended.seconds}
    report.seek(0)
    size, body = int.from_bytes(report.read(8), "little"), report.read()
    if size:  # written last, so the report is complete, even if the limit came before the child's end
        said = pickle.loads(body[:size])
        left["tool_text"] = said.pop("tool_text", "") or ended.stderr
        if said["status"] == "finished":
            try:
                said["value"] = pickle.loads(said["value"])
            except Exception as error:
                message = f"the function returned a value that can't be unpickled here: {error}"
                return Outcome("raised", type=type(error).__name__, message=message, **left)
        return Outcome(**said, **left)
    if ended.status is None:
        return Outcome("timed out", type="TimeoutExpired", message=f"killed after {timeout} s", **left)
    message = f"the child ended with exit status {ended.status}"
    if ended.status < 0:
        with contextlib.suppress(ValueError):  # a real-time signal has no name
            message += f" ({signal.Signals(-ended.status).name})"
    message += " while it wrote its report" if body else " and left no report"
    last = ended.stderr.strip().rpartition("\n")[2]
    return Outcome("died", type="ChildDied", message=message + (f"; its last words: {last}" if last else ""), **left)


def _portable(function):
    """How the child can find the function: by name in its module, or as source where it is a notebook's."""
    rule = "it should be a function that def makes at the top level of a module or of a notebook"
    if not inspect.isfunction(function):
        raise TypeError(f"function is {function!r}; {rule}")
    module, name = function.__module__, function.__qualname__
    if function.__name__ == "<lambda>":
        raise TypeError(f"function is a lambda, which has no name that the child could find it by; {rule}")
    if "." in name:
        outer, _, inner = name.replace(".<locals>", "").rpartition(".")
        raise TypeError(f"function is {inner}, defined inside {outer}, where the child can't find it; {rule}")
    if module == "__main__":
        try:
            return {"source": textwrap.dedent(inspect.getsource(function)), "name": name}
        except OSError:
            raise TypeError(f"function is {name}, whose source can't be found; {rule}") from None
    if getattr(sys.modules.get(module), name, None) is not function:
        raise TypeError(f"function is {function!r}, and {module}.{name} is something else; {rule}")
    return {"module": module, "name": name}


def _pickled(function, args, kwargs):
    """The arguments as bytes. Raises TypeError that names one that can't be pickled."""
    try:
        return pickle.dumps((args, kwargs))
    except Exception:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        for at, arg in enumerate(args):
            _require_pickle(names[at] if at < len(names) else f"args[{at}]", arg)
        for name, arg in kwargs.items():
            _require_pickle(name, arg)
        raise


def _require_pickle(name, arg):
    try:
        pickle.dumps(arg)
    except Exception as error:
        raise TypeError(f"{name} is a {type(arg).__name__}, which can't travel to the child: {error}") from error


def _python_path():
    """The child can import whatever this process can."""
    return os.pathsep.join([str(ROOT), *filter(None, sys.path)])
