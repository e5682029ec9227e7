"""Host side of kernels/exact_topk.cu: choose the launch, launch. `topk_transform` validates and calls it."""

from __future__ import annotations

import functools
import itertools
import typing

import numpy as np
import torch

from helpers.arrays import inputs
from helpers.arrays.memory import poisoned
from helpers.kernel import compile_cuda, launch

from . import Chosen

LISTED = 12288  # scores that a block's lists hold, 6 bytes each: four for the score, two for where it was
LISTED_IN_LITTLE = 6144  # the same where a block can't have that much shared memory, as on sm_75
LIST_ENTRY_BYTES = 6
STATIC_BYTES = 26 * 1024  # at most so much shared memory is the kernel's own; tests/operations/test_cubins.py reads it
MAX_LENGTH = 2**20
MAX_CLUSTER = 16
LARGEST_PORTABLE_CLUSTER = 8  # a larger one has to be asked for, and not every GPU has it


class Launch(typing.NamedTuple):
    """threads: of a block. items: scores that a thread holds in registers, 0 for lists. cluster: blocks a row.
    listed: scores that a block's lists hold."""

    threads: int
    items: int
    cluster: int
    listed: int = LISTED

    def kernel(self, pdl: bool = False) -> str:
        """The name of the kernel's instance."""
        flags = f"{'true' if pdl else 'false'}, {self.listed}"
        return f"exact_topk<{self.threads}, {self.items}, {self.cluster}, {flags}>"

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return 0 if self.items else LIST_ENTRY_BYTES * self.listed


class Limits(typing.NamedTuple):
    """Of a device: multiprocessors; max_cluster: blocks that can share a row; shared_bytes: that a block can have."""

    multiprocessors: int
    max_cluster: int
    shared_bytes: int


CPU_LIMITS = Limits(multiprocessors=1, max_cluster=1, shared_bytes=227 * 1024)  # it runs blocks one by one


def choose_launch(batch: int, length: int, limits: Limits) -> Launch:
    """The Launch for scores [batch, length] on a device with these Limits.

    A short row fits the registers of one block; while each row has a multiprocessor to itself, one of twice the length
    too. A long one is shared by as many blocks as there are multiprocessors to spare, while each still has 8192 scores
    to read. Larger blocks where one has very much to read, and shorter lists where shared memory is little.
    """
    if length <= 8192:
        return Launch(1024, 8, 1)
    if length <= 16384 and batch <= limits.multiprocessors:
        return Launch(1024, 16, 1)
    cluster = 1
    while cluster < limits.max_cluster and 2 * cluster * batch <= limits.multiprocessors:
        if length < 2 * cluster * 8192:
            break
        cluster *= 2
    large = length >= 65536 * cluster and batch * cluster <= limits.multiprocessors
    fits = STATIC_BYTES + LIST_ENTRY_BYTES * LISTED <= limits.shared_bytes
    return Launch(1024 if large else 512, 0, cluster, LISTED if fits else LISTED_IN_LITTLE)


def launch_exact(scores: torch.Tensor, seq_lens: torch.Tensor, page_table: torch.Tensor, topk: int, page_size: int,
                 out: torch.Tensor, raw_out: torch.Tensor | None, pdl: bool,
                 shape: Launch | None = None) -> None:  # fmt: skip
    """Launch the exact kernel on validated arguments. shape: a Launch instead of the one that fits.

    Raises ValueError for a shape whose registers can't hold a row.
    """
    batch, length = scores.shape
    shape = shape or choose_launch(batch, length, _limits(scores.device))
    if shape.items and length > shape.threads * shape.items:
        raise ValueError(f"{shape} holds {shape.threads * shape.items} scores in registers, but a row has {length}")
    name = shape.kernel(pdl)
    kernel = compile_cuda("exact_topk.cu", [name], device=scores.device.type).get_function(name)
    if shape.cluster > LARGEST_PORTABLE_CLUSTER:
        _allow_cluster(kernel)
    scalars = [np.int32(length), np.int64(scores.stride(0)), np.int32(page_table.shape[1]), np.int32(topk)]
    scalars += [np.int32(page_size.bit_length() - 1)]
    arguments = (scores, seq_lens, page_table, out, raw_out, *scalars)
    launch(kernel, (batch * shape.cluster,), (shape.threads,), arguments, shared_mem=shape.shared_bytes, pdl=pdl)


@functools.cache
def _limits(device):
    if device.type == "cpu":
        return CPU_LIMITS
    properties = torch.cuda.get_device_properties(device)
    return gpu_limits(properties.major, properties.multi_processor_count, properties.shared_memory_per_block_optin)


def gpu_limits(major: int, multiprocessors: int, shared_bytes: int) -> Limits:
    """The Limits of a GPU whose compute capability starts with `major`. Clusters came with 9; larger ones than every
    GPU since then can run are for the large parts of a data center, 9 and 10."""
    max_cluster = 1 if major < 9 else MAX_CLUSTER if major <= 10 else LARGEST_PORTABLE_CLUSTER
    return Limits(multiprocessors, max_cluster, shared_bytes)


@functools.cache
def _allow_cluster(kernel):
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    (status,) = driver.cuFuncSetAttribute(driver.CUfunction(kernel.kernel.ptr), attribute, 1)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{kernel.name} can't have clusters of {MAX_CLUSTER} blocks: {status.name}")


def launches(arch: str, shared_bytes: int) -> list[Chosen]:
    """Whatever `choose_launch` says for any batch and length, on GPUs of any size."""
    chosen = {
        choose_launch(batch, length, gpu_limits(int(arch[3:-1]), multiprocessors, shared_bytes))
        for batch in (1, 2, 5, 10, 30, 100, 1000)
        for length in (1, 8193, 16385, 32768, 65536, 2**17, 2**18, 2**19, 2**20)
        for multiprocessors in (4, 16, 40, 132, 148, 170)
    }
    return [Chosen(shape.kernel(pdl), shape.threads, shape.shared_bytes) for shape in chosen for pdl in (False, True)]


def try_variants(where: str) -> None:
    """A row in registers, rows in lists, also in lists as short as older GPUs have room for; ties; and on a GPU every
    cluster, so that blocks read each other's memory."""
    shapes = [Launch(1024, 8, 1), Launch(1024, 16, 1), Launch(1024, 0, 1), Launch(512, 0, 1)]
    shapes += [Launch(threads, 0, 1, LISTED_IN_LITTLE) for threads in (512, 1024)]
    if where == "cuda":
        shapes += [Launch(threads, 0, cluster) for threads in (512, 1024) for cluster in (2, 4, 8, 16)]
    scores = torch.cat([inputs.field_row(), inputs.scores("8 values", 2, 7613)]).to(where)
    lengths = torch.tensor([7613, 5000, 100], dtype=torch.int32, device=where)
    table = inputs.page_table(3, 119).to(where)
    for shape, pdl in itertools.product(shapes, (False, True)):
        out, raw = (poisoned((3, 2048), torch.int32, where) for _ in range(2))
        launch_exact(scores, lengths, table, 2048, 64, out, raw, pdl, shape)
