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


def _compiled(tools, flags, sources, text, suffix):
    """Path of the result of one compiler run, from the cache when it is there.

    text: a translation unit to compile beside the `sources`, or None.
    """
    key = "\n".join(
        [
            _headers(),
            platform.machine(),
            tools.version,
            *tools.command,
            *map(str, flags),
            *map(str, sources),
            text or "",
        ]
    )
    result = cache_folder() / (hashlib.sha256(key.encode()).hexdigest()[:32] + suffix)
    if result.exists():
        return result
    result.parent.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed: another process sees the whole file or none.
    with tempfile.TemporaryDirectory(dir=result.parent) as folder:
        if text is not None:
            unit = Path(folder) / "kernel.cpp"
            unit.write_text(text)
            sources = [*sources, unit]
            flags = [*flags, f"-fdebug-prefix-map={folder}=."]
        built = Path(folder) / result.name
        done = subprocess.run(
            [*tools.command, *map(str, sources), *map(str, flags), "-o", str(built)],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        if done.returncode:
            raise CompileError(done.stderr.strip())
        os.replace(built, result)
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
    flags = [
        *tools.kernel,
        "-shared",
        f"-I{INCLUDE}",
        "-include",
        "cuda_on_host.h",
        *(f"-D{name}={value}" for name, value in defines),
    ]
    if source.folder:
        flags.append(f"-I{source.folder}")
    if platform.system() == "Darwin":
        flags.append("-Wl,-undefined,dynamic_lookup")
    return _compiled(tools, flags, [], to_cpp(source, name_expressions), ".so")


def build_runtime(mode):
    """Path of the runtime of a mode: a shared library for "fast", else the program that child processes run."""
    tools = _tools(mode)
    last = "faults.cpp" if mode == "fast" else "runner.cpp"
    unit = "".join(f'#include "{RUNTIME / name}"\n' for name in ("scheduler.cpp", "shared.cpp", last))
    # Compiled and linked apart: the linked sanitizer must not instrument what works beneath it.
    compiled = _compiled(tools, [*tools.runtime, "-c"], [], unit, ".o")
    return _compiled(tools, tools.link, [compiled], None, ".so" if mode == "fast" else "")
