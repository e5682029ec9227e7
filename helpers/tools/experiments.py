"""The tools of lesson 30 at work on the programs of helpers/tools/cases.py and on the canaries.

Compute-sanitizer needs two things of a program: line numbers (compile_cuda has them) and no memory pool, in which one
big allocation hides where an array ends.
"""

import functools
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from helpers.kernel import device
from helpers.machine import find_tool

from .canary_table import run_gpu_tools
from .runs import NO_POOL, SANITIZER_OPTIONS, ToolRun, absent, device_name, load, run_limited, run_tool, store

LIMIT = 60  # seconds for one experiment


@dataclass(frozen=True)
class Experiment:
    """A tool on a case. tool: of compute-sanitizer's four, "coredump", "gdb" or "" (none). where: the device."""

    case: str
    tool: str = ""
    options: tuple = ()
    blocking: bool = False
    where: str = "cuda"


EXPERIMENTS = {
    "late": Experiment("late_error"),
    "blocking": Experiment("late_error", blocking=True),
    "coredump": Experiment("decode_step", "coredump"),
    "memcheck": Experiment("decode_step", "memcheck"),
    "initcheck": Experiment("select", "initcheck"),
    "initcheck_shared": Experiment("select", "initcheck", ("--initcheck-address-space", "shared")),
    "initcheck_global": Experiment("staged_global", "initcheck"),
    "racecheck": Experiment("lost_barrier", "racecheck"),
    "printf": Experiment("report_rows"),
    "printf_cpu": Experiment("report_rows", where="cpu"),
    "gdb": Experiment("decode_step", "gdb", where="cpu"),
}


def missing(name: str) -> str | None:
    """Why an experiment can't run here, or None."""
    experiment = EXPERIMENTS[name]
    executable = {"coredump": "cuda-gdb", "gdb": "gdb", "": ""}.get(experiment.tool, "compute-sanitizer")
    if executable and not find_tool(executable):
        return f"{executable} is not on this machine"
    if experiment.where == "cuda" and device() != "cuda":
        return "no GPU is in use here"
    if unknown := [option for option in experiment.options if option.startswith("--") and option not in _help()]:
        return f"this compute-sanitizer has no option {unknown[0]}"
    return None


@functools.cache
def _help():
    command = [find_tool("compute-sanitizer"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def see(name: str) -> ToolRun:
    """The ToolRun of an experiment: live where its tool is, else from the transcripts, else one that says why not."""
    reason = missing(name)
    if not reason:
        return _run_once(name)
    if EXPERIMENTS[name].where == "cpu":
        return absent(name, f"{reason}; `python -m helpers.doctor` says how to get it")
    return load(name) or absent(name, f"{reason}, and no stored transcript yet (`python -m helpers.tools record`)")


@functools.cache
def _run_once(name):
    """The programs under the tools don't change while a lesson runs, and a tool takes its time."""
    return run(name)


def run(name: str) -> ToolRun:
    """Run an experiment here and return its ToolRun."""
    experiment = EXPERIMENTS[name]
    case = [sys.executable, "-m", "helpers.tools", "case", experiment.case]
    shown = f"python -m helpers.tools case {experiment.case}"
    if experiment.tool == "gdb":
        return _run_gdb(name, case, shown)
    if experiment.tool == "coredump":
        return _run_coredump(name, case, shown)
    if experiment.tool:
        return run_sanitizer(name, experiment.tool, experiment.options, case, shown, LIMIT)
    environment = {"CUDA_LAUNCH_BLOCKING": str(int(experiment.blocking)), "KERNEL_DEVICE": experiment.where}
    shown = "CUDA_LAUNCH_BLOCKING=1 " * experiment.blocking + shown
    return run_tool(name, "", case, shown, environment, LIMIT, experiment.where)


def run_sanitizer(name: str, tool: str, options: Sequence[str], program: Sequence[str], shown: str,
                  limit: float) -> ToolRun:  # fmt: skip
    """Run a program under one of compute-sanitizer's tools and return its ToolRun.

    options: of the tool. shown: the program as a reader would type it. limit: in seconds.
    """
    options = ("--tool", tool, *options)
    command = [find_tool("compute-sanitizer"), *options, *SANITIZER_OPTIONS, *program]
    typed = f"compute-sanitizer {' '.join(options)} {shown}"
    return run_tool(name, "compute-sanitizer", command, typed, NO_POOL, limit)


def _run_coredump(name, case, shown):
    """Let the case die of its fault and leave a coredump without memory contents; then open that."""
    with tempfile.TemporaryDirectory(prefix="coredump-") as folder:
        core = Path(folder, "core")
        asked = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1"}
        run_limited(case, {**asked, "CUDA_COREDUMP_FILE": str(core)}, LIMIT)
        words = ["set debuginfod enabled off", f"target cudacore {core}", "info cuda kernels", "backtrace",
                 "x/i $errorpc", "x/2i $pc"]  # fmt: skip
        command = [find_tool("cuda-gdb"), "-nx", "-batch", *(part for word in words for part in ("-ex", word))]
        typed = f"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1 ... {shown}; cuda-gdb -ex 'target cudacore core' ..."
        return run_tool(name, "cuda-gdb", command, typed, {}, LIMIT)


def _run_gdb(name, case, shown):
    """The case on the CPU build, stopped by its fault. Only the kernel's own symbols are read: torch has too many."""
    indices = [f"print *(unsigned (*)[3])&{name}" for name in ("threadIdx", "blockIdx")]
    words = ["set debuginfod enabled off", "set auto-solib-add off", "set confirm off", "run",
             "sharedlibrary /[0-9a-f]*\\.so", "backtrace 1", *indices, "x/i $pc"]  # fmt: skip
    options = [part for word in words for part in ("-ex", word)]
    environment = {"KERNEL_DEVICE": "cpu", "KERNEL_MODE": "fast"}
    command = [find_tool("gdb"), "-nx", "-batch", "-iex", "set auto-load off", *options, "--args", *case]
    return run_tool(name, "gdb", command, f"gdb -ex run -ex backtrace ... --args {shown}", environment, LIMIT, "cpu")


def record(folder: Path) -> int:
    """Run every experiment and every canary under every tool on this GPU and store what they say. Returns how many
    experiments gave evidence."""
    wanted = [name for name in EXPERIMENTS if EXPERIMENTS[name].where == "cuda"]
    done = 0

    def attempt(name):
        try:
            reason = missing(name)
            result = absent(name, f"{reason} ({device_name('cuda')})") if reason else run(name)
            store(result, folder)
            return name, result
        except Exception as error:  # one tool that fails must not cost the others their machine time
            return name, absent(name, f"{type(error).__name__}: {error}")

    with ThreadPoolExecutor(4) as pool:
        for name, result in pool.map(attempt, wanted):
            done += bool(result)
            said = "; ".join(map(str, result.findings[:2])) or (result.text.splitlines() or [""])[-1]
            print(f"{name:17} {result.status:9} {result.seconds:5.1f} s  {said[:150]}", flush=True)
    run_gpu_tools(folder)
    return done
