"""What a lesson prints of the machine it runs on, and of the kernels it talks about."""

from __future__ import annotations

import torch

from helpers.cpu import compiler
from helpers.kernel import KERNELS, device
from helpers.machine import cuda_majors, versions

from . import memory


def banner() -> None:
    """Print what the kernels of this notebook run on, and what to do where something is missing."""
    have = versions()
    if device() == "cuda":
        name = torch.cuda.get_device_name()
        print(f"Kernels run on: {name} (CUDA {have['cuda']}), compiled by CuPy's NVRTC.")
    else:
        print(f"Kernels run on: the CPU, compiled by {compiler() or 'nothing yet: please install g++'}.")
        print("No GPU is in use. Every cell works; only times say nothing about a GPU.")
    print(f"Python {have['python']}, torch {have['torch']}, CuPy {have['cupy']}.")
    ours, cupys = cuda_majors()
    if ours and cupys and ours != cupys:
        print(f"WARNING: torch uses CUDA {ours} and CuPy CUDA {cupys}. Install cupy-cuda{ours}x instead.")
    if too_little := memory.warning():
        print(too_little)


def excerpt(kernel: str, first: str, last: str | None = None) -> None:
    """Print the decisive lines of a kernel with their line numbers.

    kernel: a file in kernels/. From the first line that contains `first` to the next that contains `last`; without
    `last`, that one line. ValueError if there is no such line, so that a lesson cannot show what is not there.
    """
    lines = (KERNELS / kernel).read_text().splitlines()
    start = next((i for i, line in enumerate(lines) if first in line), None)
    if start is None:
        raise ValueError(f"no line of {kernel} contains {first!r}")
    stop = start if last is None else next((i for i in range(start, len(lines)) if last in lines[i]), None)
    if stop is None:
        raise ValueError(f"no line of {kernel} after {first!r} contains {last!r}")
    indent = min(len(line) - len(line.lstrip()) for line in lines[start : stop + 1] if line.strip())
    print(f"kernels/{kernel}")
    for number, line in enumerate(lines[start : stop + 1], start + 1):
        print(f"{number:4}  {line[indent:]}".rstrip())
