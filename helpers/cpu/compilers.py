"""Which compiler builds which mode, with which flags."""

import functools
import importlib.util
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
    found = next(filter(None, map(shutil.which, ("g++", "c++", "clang++", "clang++-19"))), None)
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
        # Version 4, because addr2line gives the first lines of a unit to the wrong file in version 5.
        flags, link = (*_COMMON, "-O2", "-g1", "-gdwarf-4"), ("-shared",)
        if sys.platform == "darwin":  # kernels find the runtime at load time, as they do on Linux unasked
            link += ("-Wl,-undefined,dynamic_lookup",)
        command = _gxx()
        if command is None and (command := _zig()):
            # zig's sanitizers are on by default. Its C++ library takes a minute to build, and nothing here needs it.
            flags, link = (*flags, "-fno-sanitize=all"), (*link, "-nostdlib++", "-fno-sanitize=all")
        else:
            flags = (*flags, *_PROBES)
        return Toolchain(command, _version(command), (*flags, _OWN), link, flags, link) if command else _GXX
    if mode == "msan":
        command = _clang()
        if not command:
            return _CLANG
        # The runtime too, so that values keep their history on the way from lane to lane.
        sanitize = "-fsanitize=memory"
        flags = (*_COMMON, *_REPORTS, sanitize, "-fsanitize-memory-track-origins=2")
        runtime = (*flags, "-DCUDA_HOST_MSAN")
        return Toolchain(command, _version(command), (*flags, _OWN), ("-shared",), runtime, (sanitize, *_PROGRAM))
    command = _gxx()
    sanitize, define = {
        "checked": ("-fsanitize=address,undefined", "-DCUDA_HOST_ASAN"),
        "tsan": ("-fsanitize=thread", "-DCUDA_HOST_TSAN"),
    }[mode]
    if not command:
        return _GXX
    if mode == "tsan" and "clang" in _version(command):
        return "GCC, because clang's ThreadSanitizer misses races between fibers: apt-get install g++"
    if not _works(command, sanitize):
        return f"a working {sanitize} of {command[0]}: apt-get install g++ (it brings libasan, libubsan and libtsan)"
    # The runtime itself isn't instrumented: it works beneath the sanitizer and tells it what to know.
    extra = "-fsanitize=float-cast-overflow" if mode == "checked" else "--param=tsan-distinguish-volatile=1"
    kernel = (*_COMMON, *_PROBES, *_REPORTS, _OWN, sanitize, extra, "-fno-sanitize-recover=all")
    runtime = (*_COMMON, "-O2", "-g1", define)
    return Toolchain(command, _version(command), kernel, ("-shared", sanitize), runtime, (sanitize, *_PROGRAM))


def available_modes():
    """dict of each mode to None, or to the reason why it can't run here and the package to install."""
    return {mode: reason if isinstance(reason := toolchain(mode), str) else None for mode in MODES}
