"""What this machine has for the lessons, what each missing thing costs you, and the command that fixes it.

    python -m helpers.doctor     one screen in some seconds; exit status 1 if the lessons can't run here
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from helpers import cpu
from helpers.cpu import compiler
from helpers.cpu.build import build_runtime, cache_folder
from helpers.kernel import _why_no_cuda, cuda_include_dirs
from helpers.machine import cuda_majors, driver_version, find_tool, first_line, no_cupy, versions

PIP = ".venv/bin/python -m pip install"
COMPILER = "xcode-select --install" if sys.platform == "darwin" else "sudo apt-get install g++"
TOOLKIT = "sudo apt-get install cuda-toolkit-13-0   (from NVIDIA's package repository)"
INSTALL = "make install"
FOLDERS = "export KERNEL_CACHE=/tmp/kernels CUPY_CACHE_DIR=/tmp/kernels/cupy   (or other folders that you can write)"
MODES = {
    "fast": ("CPU build", "no kernel runs without a GPU", COMPILER),
    "checked": ("ASan, UBSan", "no red zones: accesses out of bounds stay silent", COMPILER),
    "msan": ("MSan", "nobody sees reads of what was never written", "sudo apt-get install clang-19 libclang-rt-19-dev"),
    "tsan": ("TSan", "nobody sees races between threads", COMPILER),
}


@dataclass(frozen=True)
class Finding:
    """One line of the screen. found: what is here, or "" if it is missing. costs, fix: for a missing thing: what a
    learner does without, and the command that brings it ("" where none can). needed: no lesson runs without it."""

    what: str
    found: str
    costs: str = ""
    fix: str = ""
    needed: bool = False


def _versions_agree():
    ours, cupys = cuda_majors()
    said = f"torch {ours or 'none'}, CuPy {cupys or 'none'}"
    if cupys is None or (ours and ours != cupys):
        return Finding(
            "CUDA majors",
            "",
            f"{said}: the first kernel on a GPU fails",
            _fix_cupy(f"{PIP} cupy-cuda{ours or 13}x"),
        )
    return Finding("CUDA majors", said)


def _nvrtc():
    try:
        from cupy.cuda import nvrtc

        version = ".".join(map(str, nvrtc.getVersion()))
    except Exception:  # whatever keeps a library from loading
        return Finding("NVRTC", "", "nothing compiles for a GPU", _fix_cupy(INSTALL))
    if not cuda_include_dirs():
        return Finding("NVRTC", "", f"{version} without CUDA's headers: no bf16 kernel compiles for a GPU", INSTALL)
    return Finding("NVRTC", version)


def _gpu():
    reason = _why_no_cuda()
    if reason is None:
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding("GPU", f"{', '.join(names)}, driver {driver_version() or 'unknown'}")
    costs = f"{reason}. Every cell still runs, on the CPU; times say nothing about a GPU"
    torch_is_cpu_only = torch.version.cuda is None and driver_version()
    return Finding("GPU", "", costs, f"{PIP} --force-reinstall torch" if torch_is_cpu_only else "")


def _tool(name, costs, fix):
    path = find_tool(name)
    lines = [line for line in (first_line([path, "--version"]),) if line] if path else []
    return Finding(name, (lines or [path])[0], costs, fix) if path else Finding(name, "", costs, fix)


def _cupy(version):
    return Finding("CuPy", "" if no_cupy() else version, f"no kernel runs on a GPU: {no_cupy()}", _fix_cupy(INSTALL))


def _fix_cupy(command):
    """The command that brings CuPy: another one than `command` where only its cache folder is missing."""
    return FOLDERS if isinstance(no_cupy(), OSError) else command


def _kernel_cache():
    """Where compiled kernels, and what a reader has solved, are kept."""
    without = {"fix": FOLDERS, "needed": _why_no_cuda() is not None}
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(2**20))  # a full disk lets a file be made, but not filled
    except (OSError, cpu.CacheError) as error:
        return Finding("kernel cache", "", f"nothing compiles for the CPU: {error}", **without)
    return Finding("kernel cache", str(folder), **without)


def _why_no_build():
    """None when the C++ compiler builds what every kernel needs, else the exception."""
    try:
        build_runtime("fast")
    except (cpu.CompileError, cpu.CacheError) as error:
        return error


def _mode(mode, reason):
    tool, costs, fix = MODES[mode]
    if mode == "fast" and (reason := reason or _why_no_build()):
        costs, fix = f"{costs}: {reason}", FOLDERS if isinstance(reason, cpu.CacheError) else fix
    found = "" if reason else f"{tool}: {compiler() if mode == 'fast' else 'ready'}"
    return Finding(f"mode {mode}", found, costs, fix, needed=mode == "fast" and _why_no_cuda() is not None)


def findings() -> list[Finding]:
    """The list of Finding for this machine."""
    have = versions()
    transcript = "lesson 30 shows stored transcripts instead"
    gpu = _gpu()
    # Without a GPU, NVIDIA's tools would have nothing to look at.
    toolkit = TOOLKIT if gpu.found else ""
    bindings = importlib.util.find_spec("cuda") and importlib.util.find_spec("cuda.bindings")
    bindings_version = importlib.metadata.version("cuda-bindings") if bindings else ""
    return [
        Finding("Python, torch", f"{have['python']}, {have['torch']}", needed=True),
        _cupy(have["cupy"]),
        _versions_agree(),
        _nvrtc(),
        gpu,
        Finding("cuda-bindings", bindings_version, "no guard pages and no early launch (PDL) on a GPU", INSTALL),
        _kernel_cache(),
        *(_mode(mode, cpu.missing_modes().get(mode)) for mode in cpu.MODES),
        _tool("gdb", "lesson 30 can't stop inside a CUDA thread", "sudo apt-get install gdb"),
        _tool("compute-sanitizer", transcript, toolkit),
        _tool("cuda-gdb", transcript, toolkit),
    ]


def can_run(found: Sequence[Finding]) -> bool:
    """Whether the lessons run at all, given the findings."""
    return all(finding.found for finding in found if finding.needed)


def in_one_command(found: Sequence[Finding]) -> str:
    """One command for all the Debian packages that are missing, or ""."""
    packages = [
        package
        for finding in found
        if not finding.found and finding.fix.startswith("sudo apt-get install ") and finding.fix != TOOLKIT
        for package in finding.fix.split()[3:]
    ]
    return f"sudo apt-get install {' '.join(dict.fromkeys(packages))}" if packages else ""


def screen(found: Sequence[Finding] | None = None) -> str:
    """The findings as text: a line for each thing, two more where it is missing and can be had."""
    found = findings() if found is None else found
    lines = []
    for finding in found:
        lines.append(f"{'ok' if finding.found else '--':3} {finding.what:18} {(finding.found or 'missing')[:90]}")
        if not finding.found:
            first, *more = textwrap.wrap(finding.costs, 108)
            lines += [f"    {'':18} costs: {first}", *(f"    {'':25} {line}" for line in more)]
        if not finding.found and finding.fix:
            lines.append(f"    {'':18} fix:   {finding.fix}")
    together = in_one_command(found)
    missing = sum(not finding.found for finding in found)
    lines.append("")
    if not can_run(found):
        lines.append("The lessons can't run here yet.")
    else:
        lines.append(f"The lessons run. Missing: {missing} of {len(found)}." if missing else "Everything is here.")
    if together:
        lines.append(f"All system packages at once: {together}")
    return "\n".join(lines)


def table(found: Sequence[Finding] | None = None) -> str:
    """The findings as a Markdown table."""
    found = findings() if found is None else found
    rows = ["| what | found here | without it | how to get it |", "|---|---|---|---|"]
    for finding in found:
        costs, fix = ("", "") if finding.found else (finding.costs, finding.fix and f"`{finding.fix}`")
        rows.append(f"| {finding.what} | {finding.found or '**missing**'} | {costs} | {fix} |")
    return "\n".join(rows)


def main(words: list[str]) -> int:
    argparse.ArgumentParser(
        prog="python -m helpers.doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(words)
    found = findings()
    print(screen(found))
    return 0 if can_run(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
