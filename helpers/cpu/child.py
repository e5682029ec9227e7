"""Launches in a child process, under a sanitizer."""

import os
import shutil
import subprocess
import sys

from . import launch
from .build import build_runtime
from .faults import KernelFault
from .launch_file import LaunchFile
from .reports import read_report

_COMMON = "abort_on_error=1:handle_abort=0:color=never"
_OPTIONS = {
    "checked": {
        # Stacks are the scheduler's own, so the tool must not move variables to stacks of its own.
        "ASAN_OPTIONS": f"{_COMMON}:detect_leaks=0:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": f"{_COMMON}:halt_on_error=1:print_stacktrace=1",
    },
    "msan": {"MSAN_OPTIONS": _COMMON},
    "tsan": {"TSAN_OPTIONS": f"{_COMMON}:halt_on_error=1:report_signal_unsafe=0:history_size=4:atexit_sleep_ms=0"},
}


def time_limit():
    """Seconds that a child may take: $KERNEL_TIMEOUT, or 60."""
    return int(os.environ.get("KERNEL_TIMEOUT", "60"))


def _environment(mode):
    symbolizer = shutil.which("llvm-symbolizer") or shutil.which("llvm-symbolizer-19") or shutil.which("addr2line")
    options = dict(_OPTIONS[mode])
    if symbolizer:
        options = {name: f"{value}:external_symbolizer_path={symbolizer}" for name, value in options.items()}
    return {**os.environ, **options}


def run(mode, library, function, grid, block, shared_bytes, args, values, writes):
    """Run a HostFunction in a child process. On success the arrays hold what it wrote; else raises KernelFault.

    library: its Path for this mode. args, values, writes: as for LaunchFile.
    """
    seconds = time_limit()
    request = launch.begin(grid, block, shared_bytes)
    file = LaunchFile(request, args, values, writes)
    try:
        descriptor = file.file.fileno()
        index = function.module.name_expressions.index(function.name)
        command = [build_runtime(mode), str(descriptor), library, str(index), str(seconds)]
        try:
            # The child stops itself in time, and then knows where it stood; the second limit is for one that can't.
            done = subprocess.run(
                command,
                pass_fds=(descriptor,),
                env=_environment(mode),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds + 5,
            )
        except subprocess.TimeoutExpired as error:
            report = (error.stderr or b"").decode(errors="replace")
            message = f"still running after {seconds} s (KERNEL_TIMEOUT)"
            raise KernelFault("timeout", message, kernel=function.name, report=report) from None
        sys.stdout.write(done.stdout)
        fault = read_report(mode, function, file, done.stderr, done.returncode, seconds)
        if fault:
            raise fault
        file.take_back(request)
    finally:
        file.close()
