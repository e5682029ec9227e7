"""Which compiler builds which mode, with which flags."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .settings import MODES

INCLUDE = Path(__file__).parent / "include"
RUNTIME = Path(__file__).parent / "runtime"

_GXX = "a C++ compiler: apt-get install g++ (or pip install ziglang, for the fast mode alone)"
_CLANG = "clang with MemorySanitizer: apt-get install clang-19 libclang-rt-19-dev"
# -w: a kernel's warnings are NVRTC's business. No -march: the cache may be shared between machines.
_COMMON = ("-std=c++17", "-fPIC", "-w")
# Two builds of one kernel live in one process: neither may see the other's templates and static variables.
_OWN = "-fvisibility=hidden"
_REPORTS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
# The program of a child process: kernels find the runtime in it.
_PROGRAM = ("-rdynamic", "-ldl")


@dataclass(frozen=True)
class Toolchain:
    """command: the compiler. kernel, runtime: flags that compile them. link: flags that link the runtime."""

    command: tuple
    version: str
    kernel: tuple
    runtime: tuple
    link: tuple


@functools.cache
def _version(command):
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout


@functools.cache
def _works(command, flag):
    """Whether the compiler has a sanitizer's library, and a program with it runs on this kernel."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        build = [*command, "-x", "c++", "-", "-o", str(program), flag]
        if subprocess.run(build, input="int main() {}", text=True, capture_output=True).returncode:
            return False
        return subprocess.run([str(program)], capture_output=True).returncode == 0


def _gxx():
    found = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")
    return (found,) if found else None


def _clang():
    for name in ("clang++-19", "clang++", "clang++-20", "clang++-18", "clang++-17", "clang++-16"):
        found = shutil.which(name)
        if found and _works((found,), "-fsanitize=memory"):
            return (found,)
    return None


def _zig():
    return (sys.executable, "-m", "ziglang", "c++") if importlib.util.find_spec("ziglang") else None


@functools.cache
def toolchain(mode):
    """The Toolchain of a mode, or a str that says what is missing and how to install it."""
    if mode == "fast":
        flags = (*_COMMON, "-O2", "-g1")
        command = _gxx()
        if command is None and (command := _zig()):
            flags += ("-fno-sanitize=all", "-nostdlib++")
        return Toolchain(command, _version(command), (*flags, _OWN), flags, (*flags, "-shared")) if command else _GXX
    if mode == "msan":
        command = _clang()
        if not command:
            return _CLANG
        flags = (*_COMMON, *_REPORTS, "-fsanitize=memory", "-fsanitize-memory-track-origins=2")
        return Toolchain(command, _version(command), (*flags, _OWN), (*flags, "-DCUDA_HOST_MSAN"), (*flags, *_PROGRAM))
    command = _gxx()
    sanitize, define = {
        "checked": ("-fsanitize=address,undefined", "-DCUDA_HOST_ASAN"),
        "tsan": ("-fsanitize=thread", "-DCUDA_HOST_TSAN"),
    }[mode]
    if not command:
        return _GXX
    if not _works(command, sanitize):
        return f"a working {sanitize} of {command[0]}: apt-get install g++ (it brings libasan, libubsan and libtsan)"
    # The runtime itself isn't instrumented: it works beneath the sanitizer and tells it what to know.
    kernel = (*_COMMON, *_REPORTS, _OWN, sanitize, "-fno-sanitize-recover=all")
    return Toolchain(command, _version(command), kernel, (*_COMMON, "-O2", "-g1", define), (sanitize, *_PROGRAM))


def available_modes():
    """dict of each mode to None, or to the reason why it can't run here and the package to install."""
    return {mode: reason if isinstance(reason := toolchain(mode), str) else None for mode in MODES}
