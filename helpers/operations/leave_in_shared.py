"""Host side of kernels/leave_in_shared.cu: what an earlier kernel left in shared memory, chosen."""

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from helpers import cpu
from helpers.kernel import compile_cuda, device, launch

from . import Chosen

THREADS = 256


@contextlib.contextmanager
def left_in_shared(pattern: torch.Tensor, kernel_device: str | None = None) -> Iterator[None]:
    """Within: kernels find `pattern` (int32 [n], repeated) where they leave shared memory uninitialised.

    Runs kernels/leave_in_shared.cu on every multiprocessor. A GPU keeps what a block left until another block
    overwrites it; the CPU build does the same within this context (outside, it fills shared memory with 0xCB).
    On a GPU nothing else may run between the two kernels: not the loading of the second one, so launch it once
    before, and no other process, since a switch of contexts clears shared memory.
    """
    if pattern.dtype != torch.int32 or pattern.ndim != 1 or pattern.numel() == 0:
        raise ValueError(f"pattern is {pattern.dtype} {list(pattern.shape)}; it should be int32 [n] with n at least 1")
    where = kernel_device or device()
    words = pattern.to(where).contiguous()
    with cpu.shared_memory("keep"):
        kernel = compile_cuda("leave_in_shared.cu", ["leave_in_shared"], device=where).get_function("leave_in_shared")
        multiprocessors, shared_bytes = _multiprocessors(words.device)
        arguments = (words, np.int32(words.numel()), np.int32(shared_bytes // 4))
        launch(kernel, (2 * multiprocessors,), (THREADS,), arguments, shared_mem=shared_bytes)
        yield


def _multiprocessors(where):
    """How many there are, and the most shared memory, in bytes, that a block can have on one."""
    if where.type == "cpu":
        return 1, len(cpu.shared_arena())
    properties = torch.cuda.get_device_properties(where)
    return properties.multi_processor_count, properties.shared_memory_per_block_optin


def launches(arch: str, shared_bytes: int) -> list[Chosen]:
    """The one there is, with all of the shared memory that a block can have."""
    return [Chosen("leave_in_shared", THREADS, shared_bytes)]


def try_variants(where: str) -> None:
    """Three words, repeated."""
    with left_in_shared(torch.tensor([1, 2, 3], dtype=torch.int32), where):
        pass
