"""What NVRTC says to a source: asked wherever CuPy is, because it needs no GPU, and kept beside the CPU builds."""

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import tempfile
from collections.abc import Sequence

from .build import cache_folder

ARCH = "sm_80"  # most GPUs in use run it, and it has what tutorials use


@functools.cache
def _version():
    """The installed NVRTC, in words that change with it; None without CuPy."""
    if importlib.util.find_spec("cupy") is None:
        return None
    found = []
    for package in ("cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return " ".join(found)


def refusal(name: str, text: str, name_expressions: Sequence[str], options: Sequence[str]) -> str | None:
    """NVRTC's errors for a source, "" if it accepts it, None if it can't be asked here.

    name: what messages call the source. text, name_expressions, options: as NVRTC takes them. The machine code is made
    too: only then too much static shared memory is seen.
    """
    if _version() is None:
        return None
    # Without line information: ptxas can't read a file's name that has quotes in it, and messages need none.
    options = (*(option for option in options if option != "-lineinfo"), f"-arch={ARCH}", "-default-device")
    parts = (_version(), name, text, *name_expressions, *options)
    known = cache_folder() / (hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32] + ".nvrtc")
    if known.exists():
        return known.read_text()
    answer = _ask(name, text, name_expressions, options)
    if answer is not None:
        known.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=known.parent, delete=False) as file:
            file.write(answer)
        os.replace(file.name, known)  # another process sees the whole file or none
    return answer


def _with_reason(log):
    """The log, led by plain words where it is about a block's shared memory."""
    found = re.search(r"Entry function '(\w+)' uses too much shared data \((0x\w+) bytes, (0x\w+) max\)", log)
    if not found:
        return log
    return (
        f"{found[1]} declares {int(found[2], 16)} bytes of __shared__ variables, and a block gets {int(found[3], 16)}: "
        f"more than that has to be dynamic (extern __shared__, and shared_mem= at the launch)\n{log}"
    )


def _ask(name, text, name_expressions, options):
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except (ImportError, RuntimeError):  # what CuPy raises where NVRTC itself is missing
        return None
    program = nvrtc.createProgram(text, name, (), ())
    try:
        for expression in name_expressions:
            nvrtc.addNameExpression(program, expression)
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        return _with_reason(nvrtc.getProgramLog(program).strip() or str(error))
    finally:
        nvrtc.destroyProgram(program)
    return ""
