"""Compiles and caches: kernels to shared libraries, the runtime once a mode."""

import functools
import hashlib
import os
import platform
import subprocess
import tempfile
from pathlib import Path

from .compilers import INCLUDE, RUNTIME, toolchain
from .faults import CompileError
from .source import to_cpp


def cache_folder():
    """$KERNEL_CACHE, or ~/.cache/cuda-bug-lessons."""
    folder = os.environ.get("KERNEL_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "cuda-bug-lessons"


@functools.cache
def _headers():
    """A digest of everything that a build includes."""
    digest = hashlib.sha256()
    for folder in (INCLUDE, RUNTIME):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _built(tools, text, compile_flags, link_flags, suffix):
    """Path of what a translation unit becomes, compiled and linked; from the cache when it is there."""
    parts = (_headers(), platform.machine(), tools.version, *tools.command, *compile_flags, *link_flags, text)
    result = cache_folder() / (hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32] + suffix)
    if result.exists():
        return result
    result.parent.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed: another process sees the whole file or none.
    with tempfile.TemporaryDirectory(dir=result.parent) as folder:
        (Path(folder) / "unit.cpp").write_text(text)
        for step in (
            ["unit.cpp", "-c", "-o", "unit.o", *compile_flags, f"-fdebug-prefix-map={folder}=."],
            ["unit.o", "-o", result.name, *link_flags],
        ):
            done = subprocess.run([*tools.command, *step], capture_output=True, text=True, cwd=folder)
            if done.returncode:
                raise CompileError(done.stderr.strip())
        os.replace(Path(folder) / result.name, result)
    return result


def _tools(mode):
    tools = toolchain(mode)
    if isinstance(tools, str):
        raise RuntimeError(f"mode {mode!r} needs {tools}")
    return tools


def build_kernels(source, name_expressions, defines, mode):
    """Compile a Source for a mode.

    Returns the Path of a shared library. Raises CompileError, whose message has the source's own lines.
    """
    tools = _tools(mode)
    flags = [*tools.kernel, f"-I{INCLUDE}", "-include", "cuda_on_host.h"]
    flags += [f"-D{name}={value}" for name, value in defines]
    if source.folder:
        flags.append(f"-I{source.folder}")
    return _built(tools, to_cpp(source, name_expressions), flags, tools.link_kernel, ".so")


def build_runtime(mode):
    """Path of the runtime of a mode: a shared library for "fast", else the program that child processes run."""
    tools = _tools(mode)
    files = ["fibers", "scheduler", "waiting", "spinning", "tick", "order", "shared"]
    files.append("faults" if mode == "fast" else "runner")
    text = "".join(f'#include "{RUNTIME / name}.cpp"\n' for name in files)
    return _built(tools, text, tools.runtime, tools.link_runtime, ".so" if mode == "fast" else "")
