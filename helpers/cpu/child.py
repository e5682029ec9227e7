"""Launches in a child process, under a sanitizer."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import processes
from . import launch
from .build import build_runtime
from .faults import KernelFault
from .launch_file import LaunchFile
from .reports import read_report

_COMMON = "abort_on_error=1:handle_abort=0:color=never"
_CHECKED = {
    # Stacks are the scheduler's own, so the tool must not move variables to stacks of its own.
    "ASAN_OPTIONS": f"{_COMMON}:detect_leaks=0:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": f"{_COMMON}:halt_on_error=1:print_stacktrace=1",
}
_MSAN = {"MSAN_OPTIONS": _COMMON}
_TSAN = {"TSAN_OPTIONS": f"{_COMMON}:halt_on_error=1:report_signal_unsafe=0:history_size=4:atexit_sleep_ms=0"}
# A launch that fails is repeated with the next options. MemorySanitizer's cheap stack traces end at a fiber's own
# stack; the costly ones also say where the memory was declared.
_ATTEMPTS = {
    "checked": (_CHECKED,),
    "msan": (_MSAN, {"MSAN_OPTIONS": f"{_COMMON}:fast_unwind_on_malloc=0"}),
    "tsan": (_TSAN,),
}


def time_limit() -> int:
    """Seconds that a child may take: $KERNEL_TIMEOUT, or 60."""
    return int(os.environ.get("KERNEL_TIMEOUT", "60"))


@functools.cache
def _symbolizer():
    names = ("llvm-symbolizer", "llvm-symbolizer-19", "addr2line")
    found = next(filter(None, map(shutil.which, names)), None)
    return f":external_symbolizer_path={found}" if found else ""


def run(mode: str, library: Path, function: Any, grid: Sequence[int], block: Sequence[int], shared_bytes: int,
        args: Sequence[object], values: Sequence[object], writes: Sequence[bool],
        variables: Sequence[launch.Variable]) -> None:  # fmt: skip
    """Run a HostFunction in a child process. On success the arrays hold what it wrote; else raises KernelFault.

    library: its Path for this mode. args, values, writes, variables: as for LaunchFile.
    """
    request = launch.begin(grid, block, shared_bytes)
    program = build_runtime(mode)
    for options in _ATTEMPTS[mode]:
        file = LaunchFile(request, args, values, writes, variables)
        try:
            fault = _attempt(program, library, function, file, options)
            if not fault:
                file.take_back(request)
                return
        finally:
            file.close()
        if not fault.kind.startswith("uninitialised"):
            break
    raise fault


def _attempt(program, library, function, file, options):
    """One child process. Returns its KernelFault, or None."""
    seconds = time_limit()
    descriptor = file.file.fileno()
    index = function.module.name_expressions.index(function.name)
    # The child stops itself in time, and then says where it stood; the second limit is for one that can't.
    done = processes.run(
        [program, str(descriptor), library, str(index), str(seconds), str(os.getpid())],
        seconds + 1,
        pass_fds=(descriptor,),
        env={**os.environ, **{name: value + _symbolizer() for name, value in options.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    sys.stdout.write(done.stdout)
    if done.status is None:
        return KernelFault("timeout", limit_passed(seconds), kernel=function.name, report=done.stderr)
    fault = read_report(function, file, done.stderr, done.status)
    if fault and fault.kind == "timeout":
        return KernelFault(
            "timeout", limit_passed(seconds), kernel=function.name, thread=fault.thread, block=fault.block
        )
    return fault


def limit_passed(seconds: int) -> str:
    """What a fault says of a kernel that ran for longer than `seconds`."""
    return f"still running after {seconds} s, the limit that KERNEL_TIMEOUT sets"
