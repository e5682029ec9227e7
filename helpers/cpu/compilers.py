"""Which compiler builds which mode, with which flags."""

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .settings import MODES

INCLUDE = Path(__file__).parent / "include"
RUNTIME = Path(__file__).parent / "runtime"

ANSWER_SECONDS = 20  # for a compiler to say its version, or to build an empty program
_GXX = "a C++ compiler: apt-get install g++ (or pip install ziglang, for the fast mode alone)"
_CLANG = "clang with MemorySanitizer: apt-get install clang-19 libclang-rt-19-dev"
# -w: a kernel's warnings are NVRTC's business. No -march: the cache may be shared between machines.
_COMMON = ("-std=c++17", "-fPIC", "-w")
# Two builds of one kernel live in one process: neither may see the other's templates and static variables.
_OWN = "-fvisibility=hidden"
_REPORTS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
# A large local array touches every page of the stack on its way: it can't jump over the page that guards the end.
_PROBES = () if sys.platform == "darwin" else ("-fstack-clash-protection",)
# The program of a child process: kernels find the runtime in it.
_PROGRAM = ("-rdynamic", "-ldl")


@dataclass(frozen=True)
class Toolchain:
    """command: the compiler. Then the flags that compile and that link a kernel and the runtime."""

    command: tuple
    version: str
    kernel: tuple
    link_kernel: tuple
    runtime: tuple
    link_runtime: tuple


def run(command: Sequence[str], seconds: float, text: str | None = None, cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess:  # fmt: skip
    """Run a command that may hang: subprocess.CompletedProcess, its output as str. text: its input.

    Raises OSError when it can't start, and subprocess.TimeoutExpired. Whatever ends the wait ends the command's own
    children too: they hold the pipes, and a compiler does its work in them.
    """
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        command, **pipes, text=True, errors="replace", cwd=cwd, env=env, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(text, timeout=seconds)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()  # after Ctrl-C Popen itself wouldn't, and would leave a zombie
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@functools.cache
def _asked(command):
    """What `--version` prints, and "", or "" and what is wrong with this compiler."""
    name = " ".join((*command, "--version"))
    try:
        done = run([*command, "--version"], ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return "", f"`{name}` did not end within {ANSWER_SECONDS} s"
    except OSError as error:
        return "", f"`{name}` can't start: {error.strerror}"
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[0]
        return "", f"`{name}` ended with {done.returncode}: {said}"
    if not re.search(r"\d+\.\d+", done.stdout):
        said = (done.stdout.strip() or "nothing").splitlines()[0]
        return "", f"`{name}` names no version, it says {said[:80]!r}"
    return done.stdout, ""


def _version(command):
    return _asked(command)[0]


@functools.cache
def _works(command, flag):
    """Whether the compiler has a sanitizer's library, and a program with it runs on this kernel."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = str(Path(folder) / "program")
        try:
            built = run([*command, "-x", "c++", "-", "-o", program, flag], ANSWER_SECONDS, "int main() {}")
            return built.returncode == 0 and run([program], ANSWER_SECONDS).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def _found(names):
    """The first of these compilers that is here and says its version, as a command, and what is wrong with others."""
    wrong = []
    for path in filter(None, map(shutil.which, names)):
        _, problem = _asked((path,))
        if not problem:
            return (path,), wrong
        wrong.append(problem)
    return None, wrong


def _gxx():
    """(command, None), or (None, what to install, and why those here don't do)."""
    command, wrong = _found(("g++", "c++", "clang++", "clang++-19"))
    return command, None if command else "; ".join([_GXX, *wrong])


def _clang():
    for name in ("clang++-19", "clang++", "clang++-20", "clang++-18", "clang++-17", "clang++-16"):
        command, _ = _found((name,))
        if command and _works(command, "-fsanitize=memory"):
            return command
    return None


def _zig():
    return (sys.executable, "-m", "ziglang", "c++") if importlib.util.find_spec("ziglang") else None


@functools.cache
def toolchain(mode: str) -> Toolchain | str:
    """The Toolchain of a mode, or a str that says what is missing and how to install it."""
    if mode == "fast":
        # Version 4, because addr2line gives the first lines of a unit to the wrong file in version 5.
        flags, link = (*_COMMON, "-O2", "-g1", "-gdwarf-4"), ("-shared",)
        if sys.platform == "darwin":  # kernels find the runtime at load time, as they do on Linux unasked
            link += ("-Wl,-undefined,dynamic_lookup",)
        command, missing = _gxx()
        if command is None and (command := _zig()):
            # zig's sanitizers are on by default. Its C++ library takes a minute to build, and nothing here needs it.
            flags, link = (*flags, "-fno-sanitize=all"), (*link, "-nostdlib++", "-fno-sanitize=all")
        else:
            flags = (*flags, *_PROBES)
        return Toolchain(command, _version(command), (*flags, _OWN), link, flags, link) if command else missing
    if mode == "msan":
        command = _clang()
        if not command:
            return _CLANG
        # The runtime too, so that values keep their history on the way from lane to lane.
        sanitize = "-fsanitize=memory"
        flags = (*_COMMON, *_REPORTS, sanitize, "-fsanitize-memory-track-origins=2")
        runtime = (*flags, "-DCUDA_HOST_MSAN")
        return Toolchain(command, _version(command), (*flags, _OWN), ("-shared",), runtime, (sanitize, *_PROGRAM))
    command, missing = _gxx()
    sanitize, define = {
        "checked": ("-fsanitize=address,undefined", "-DCUDA_HOST_ASAN"),
        "tsan": ("-fsanitize=thread", "-DCUDA_HOST_TSAN"),
    }[mode]
    if not command:
        return missing
    if mode == "tsan" and "clang" in _version(command):
        return "GCC, because clang's ThreadSanitizer misses races between fibers: apt-get install g++"
    if not _works(command, sanitize):
        return f"a working {sanitize} of {command[0]}: apt-get install g++ (it brings libasan, libubsan and libtsan)"
    # The runtime itself isn't instrumented: it works beneath the sanitizer and tells it what to know.
    extra = "-fsanitize=float-cast-overflow" if mode == "checked" else "--param=tsan-distinguish-volatile=1"
    kernel = (*_COMMON, *_PROBES, *_REPORTS, _OWN, sanitize, extra, "-fno-sanitize-recover=all")
    runtime = (*_COMMON, "-O2", "-g1", define)
    return Toolchain(command, _version(command), kernel, ("-shared", sanitize), runtime, (sanitize, *_PROGRAM))


def missing_modes() -> dict[str, str]:
    """The modes that can't run here: mode -> what it needs, and the package to install. Empty if all can."""
    return {mode: reason for mode in MODES if isinstance(reason := toolchain(mode), str)}


def compiler() -> str:
    """First line of `--version` of the C++ compiler that builds kernels for the CPU, or ""."""
    tools = toolchain("fast")
    return "" if isinstance(tools, str) else tools.version.strip().splitlines()[0].strip()
