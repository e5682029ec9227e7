"""Facts about this machine: versions, compilers, tools."""

import functools
import importlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


def versions() -> dict[str, str]:
    """Versions of what runs the lessons. "cuda": what torch was built for, "none" for a CPU build."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "cupy": f"missing ({no_cupy()})" if no_cupy() else importlib.import_module("cupy").__version__,
    }


@functools.cache
def no_cupy() -> Exception | None:
    """None when CuPy can be imported, else the exception. It makes its cache folder as it is imported."""
    try:
        importlib.import_module("cupy")
    except (ImportError, OSError) as error:
        return error


def cuda_majors() -> tuple[int | None, int | None]:
    """CUDA major versions that torch and CuPy were built for; None where there is none."""
    ours = int(torch.version.cuda.split(".")[0]) if torch.version.cuda else None
    if no_cupy():
        return ours, None
    from cupy.cuda import runtime

    return ours, runtime.runtimeGetVersion() // 1000


def find_tool(name: str) -> str | None:
    """Path of an executable on PATH, in $CUDA_PATH/bin or in /usr/local/cuda/bin, or None."""
    folders = [os.environ.get("PATH", ""), os.path.join(os.environ.get("CUDA_PATH", "/usr/local/cuda"), "bin")]
    return shutil.which(name, path=os.pathsep.join(folders))


def first_line(command: Sequence[str]) -> str:
    """The first line that a command prints, or "" if it can't run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().splitlines()[0].strip() if done.stdout.strip() else ""


def driver_version() -> str:
    """The NVIDIA driver's version, or ""."""
    return first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])
