"""Compiles and caches: kernels to shared libraries, the runtime once a mode."""

import contextlib
import errno
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .compilers import INCLUDE, RUNTIME, run, toolchain
from .faults import CacheError, CompileError
from .source import Source, to_cpp

COMPILE_SECONDS = 300  # for one step of a build; a kernel takes about one
_STALE_SECONDS = 3600  # a folder of a build that is older belongs to nobody any more
_HEX = 32  # digits of each of the two hashes in a file's name


def cache_folder() -> Path:
    """$KERNEL_CACHE, or ~/.cache/cuda-bug-lessons, as an absolute Path. Raises CacheError where there is no home."""
    folder = os.environ.get("KERNEL_CACHE")
    try:
        return Path(folder).absolute() if folder else Path.home() / ".cache" / "cuda-bug-lessons"
    except RuntimeError as error:
        raise CacheError(f"no folder for compiled kernels: {str(error).rstrip('.')}") from None


@functools.cache
def _headers():
    """A digest of everything that a build includes."""
    digest = hashlib.sha256()
    for folder in (INCLUDE, RUNTIME):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _seal(key, path):
    """A hash of what a file was made from and of its bytes."""
    return hashlib.sha256(key.encode() + path.read_bytes()).hexdigest()[:_HEX]


def _built(tools, text, compile_flags, link_flags, suffix):
    """Path of what a translation unit becomes, compiled and linked; from the cache when it is there.

    Its name holds two hashes: of all that it was made from, and the seal of its content. What doesn't match its seal is
    never loaded, for a truncated library ends the process that maps it; it is built again.
    """
    parts = (_headers(), platform.machine(), tools.version, *tools.command, *compile_flags, *link_flags, text)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_HEX]
    folder = cache_folder()
    try:
        for path in sorted(folder.glob(f"{key}-*{suffix}")):
            with contextlib.suppress(OSError):  # another process was faster, or the folder is for reading only
                if path.name == f"{key}-{_seal(key, path)}{suffix}":
                    return path
                path.unlink()
        return _build(folder, key, tools.command, text, compile_flags, link_flags, suffix)
    except OSError as error:
        raise CacheError(f"compiled kernels can't be kept in {folder}: {error.strerror or error}") from error


def _build(cache, key, command, text, compile_flags, link_flags, suffix):
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache.glob("build-*"):  # of builds that were killed
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path)
    # Built aside and renamed: another process sees the whole file or none.
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache, ignore_cleanup_errors=True) as folder:
        (Path(folder) / "unit.cpp").write_text(text)
        for step in (
            ["unit.cpp", "-c", "-o", "unit.o", *compile_flags, f"-fdebug-prefix-map={folder}=."],
            ["unit.o", "-o", "unit", *link_flags],
        ):
            _compile([*command, *step], folder)
        result = cache / f"{key}-{_seal(key, Path(folder) / 'unit')}{suffix}"
        os.replace(Path(folder) / "unit", result)
    return result


def _compile(command, folder):
    """One step of a build. Raises CompileError, and OSError where the disk is full."""
    try:
        done = run(command, COMPILE_SECONDS, cwd=folder, env={**os.environ, "TMPDIR": folder})
    except subprocess.TimeoutExpired:
        raise CompileError(f"{command[0]} did not end within {COMPILE_SECONDS} s") from None
    if done.returncode and os.strerror(errno.ENOSPC) in done.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if done.returncode:
        raise CompileError(done.stderr.strip() or f"{command[0]} ended with {done.returncode} and no message")
    if not (Path(folder) / command[command.index("-o") + 1]).is_file():
        raise CompileError(f"{command[0]} ended with 0, but made no file")


def _tools(mode):
    tools = toolchain(mode)
    if isinstance(tools, str):
        raise RuntimeError(f"mode {mode!r} needs {tools}")
    return tools


def build_kernels(source: Source, name_expressions: Sequence[str], defines: Sequence[tuple[str, object]],
                  mode: str) -> Path:  # fmt: skip
    """Compile a Source for a mode.

    Returns the Path of a shared library. Raises CompileError, whose message has the source's own lines.
    """
    tools = _tools(mode)
    flags = [*tools.kernel, f"-I{INCLUDE}", "-include", "cuda_on_host.h"]
    flags += [f"-D{name}={value}" for name, value in defines]
    if source.folder:
        flags.append(f"-I{source.folder}")
    return _built(tools, to_cpp(source, name_expressions), flags, tools.link_kernel, ".so")


def build_runtime(mode: str) -> Path:
    """Path of the runtime of a mode: a shared library for "fast", else the program that child processes run."""
    tools = _tools(mode)
    names = ["fibers", "scheduler", "waiting", "spinning", "tick", "order", "shared"]
    names.append("faults" if mode == "fast" else "runner")
    text = "".join(f'#include "{name}.cpp"\n' for name in names)
    flags = (*tools.runtime, f"-iquote{RUNTIME}")
    return _built(tools, text, flags, tools.link_runtime, ".so" if mode == "fast" else "")
