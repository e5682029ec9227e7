"""Run something that may crash in a child process, and get back what happened as an object.

An illegal access ends a CUDA context: every later call in that process fails with the same error. A child takes the
context with it; the notebook's own kernel goes on.
"""

import dataclasses
import importlib
import inspect
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a child process did.

    status: "finished" | "raised" | "timed out" | "died" (ended by a signal or without a word).
    value: what the function returned. type, message: of the exception. kernel, line: where, if the report says so.
    tool_text: the full text that the sanitizer, the CUDA driver or Python left. seconds: wall time of the child.
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


def run_in_child(function, *args, device=None, mode=None, timeout=120, environment=None, **kwargs):
    """Call function(*args, **kwargs) in a fresh Python process and return its Outcome; never raises what it raises.

    function: importable, or defined in a notebook (then its source travels, and it imports what it needs itself).
    Arguments and result are pickled: tensors should be on the CPU. device, mode: the child's KERNEL_DEVICE and
    KERNEL_MODE. environment: further environment variables. timeout: seconds until the child is killed.
    """
    with tempfile.TemporaryDirectory(prefix="experiment-") as folder:
        job, report = Path(folder, "job.pickle"), Path(folder, "report.pickle")
        job.write_bytes(pickle.dumps({"function": _portable(function), "args": args, "kwargs": kwargs}))
        env = os.environ | {"CUDA_LAUNCH_BLOCKING": "1", "PYTHONPATH": _python_path()} | (environment or {})
        env |= {"KERNEL_DEVICE": device} if device else {}
        env |= {"KERNEL_MODE": mode} if mode else {}
        command = [sys.executable, "-m", "helpers.experiments", str(job), str(report)]
        started = time.perf_counter()
        child = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True,
        )  # fmt: skip
        try:
            _, stderr = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its own children too
            child.communicate()
            return Outcome("timed out", type="TimeoutExpired", message=f"killed after {timeout} s", seconds=timeout)
        seconds = time.perf_counter() - started
        if not report.exists():
            message = f"the child ended with exit status {child.returncode} and left no report"
            return Outcome("died", type="ChildDied", message=message, tool_text=stderr, seconds=seconds)
        result = pickle.loads(report.read_bytes())
        text = result.pop("tool_text", "") or stderr
        return Outcome(**result, tool_text=text, seconds=seconds)


def _portable(function):
    """How the child can find the function: by name in its module, or as source where it is a notebook's."""
    if not inspect.isfunction(function):
        raise TypeError(f"function is {function!r}; it should be a function, defined with def")
    if function.__module__ != "__main__":
        return {"module": function.__module__, "name": function.__qualname__}
    return {"source": textwrap.dedent(inspect.getsource(function)), "name": function.__name__}


def _python_path():
    """The child can import whatever this process can."""
    return os.pathsep.join([str(ROOT), *filter(None, sys.path)])


def _load(portable):
    if "module" in portable:
        return getattr(importlib.import_module(portable["module"]), portable["name"])
    namespace = {"__name__": "__experiment__"}
    exec(compile(portable["source"], f"<{portable['name']}>", "exec"), namespace)
    return namespace[portable["name"]]


def _main(job_path, report_path):
    """The child's side: call, wait for the GPU, report."""
    job = pickle.loads(Path(job_path).read_bytes())
    try:
        value = _load(job["function"])(*job["args"], **job["kwargs"])
        if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
            sys.modules["torch"].cuda.synchronize()
        report = {"status": "finished", "value": value}
        pickle.dumps(report)  # a value that can't travel is an exception too
    except Exception as error:
        report = {"status": "raised", "type": type(error).__name__, "message": str(error).strip()}
        report |= {"kernel": getattr(error, "kernel", None), "line": getattr(error, "line", None)}
        report |= {"tool_text": getattr(error, "report", "") or ""}
        if not report["tool_text"]:
            import traceback

            traceback.print_exc()
    Path(report_path).write_bytes(pickle.dumps(report))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a dead CUDA context makes an orderly exit fail


if __name__ == "__main__":
    _main(*sys.argv[1:])
