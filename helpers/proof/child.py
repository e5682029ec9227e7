"""The child's side of run_in_child: call, wait for the GPU, report. The job comes on stdin.

The report is a pickle behind its size in 8 bytes, and the size is written last: without it the report isn't complete.
"""

import contextlib
import importlib
import os
import pickle
import sys
import traceback


def _load(portable):
    if "module" in portable:
        return getattr(importlib.import_module(portable["module"]), portable["name"])
    namespace = {"__name__": "__experiment__"}
    exec(compile(portable["source"], f"<{portable['name']}>", "exec"), namespace)
    return namespace[portable["name"]]


def _call(job):
    """What the function returned, as bytes."""
    function = _load(job["function"])
    try:
        args, kwargs = pickle.loads(job["arguments"])
    except Exception as error:
        raise TypeError(f"an argument can't be unpickled in the child: {type(error).__name__}: {error}") from error
    value = function(*args, **kwargs)
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        sys.modules["torch"].cuda.synchronize()
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"can't pickle what the function returned: {type(error).__name__}: {error}") from error


def _attribute(error, name, kind):
    """An attribute of an exception if it is what an Outcome holds, else None."""
    try:
        value = getattr(error, name, None)
    except BaseException:
        return None
    return kind.__str__(value) if kind is str and isinstance(value, str) else value if type(value) is kind else None


def _described(error):
    """The report of an exception: only texts and numbers, which always travel."""
    try:
        message = str.__str__(str(error)).strip()
    except BaseException as second:
        message = f"(str() of it fails with {type(second).__name__})"
    text = _attribute(error, "report", str)
    if not text:
        with contextlib.suppress(Exception):  # the function may have closed stderr
            traceback.print_exception(error)
    place = {"kernel": _attribute(error, "kernel", str), "line": _attribute(error, "line", int)}
    return {"status": "raised", "type": type(error).__name__, "message": message, "tool_text": text or "", **place}


def _write(report, descriptor):
    body = pickle.dumps(report)
    for offset, data in ((8, body), (0, len(body).to_bytes(8, "little"))):
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view, offset = view[written:], offset + written


def main(descriptor: int) -> None:
    """Do the job that stdin holds, write the report of it into the file with this descriptor, and end the process."""
    process = os.getpid()
    job = pickle.load(sys.stdin.buffer)
    try:
        report = {"status": "finished", "value": _call(job)}
    except BaseException as error:
        report = _described(error)
    if os.getpid() != process:  # a fork that the function left: the report is not its business
        os._exit(0)
    try:
        _write(report, descriptor)
    except (OSError, MemoryError) as error:
        os.ftruncate(descriptor, 0)
        message = f"what the function returned can't be written into the child's report: {error}"
        _write({"status": "raised", "type": type(error).__name__, "message": message}, descriptor)
    with contextlib.suppress(Exception):  # the function may have closed it
        sys.stderr.flush()
    os._exit(0)  # a dead CUDA context makes an orderly exit fail


if __name__ == "__main__":
    main(int(sys.argv[1]))
