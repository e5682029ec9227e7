"""Host side of kernels/exact_topk.cu: choose the launch, launch. `topk_transform` validates and calls it."""

import functools
import typing

import numpy as np
import torch

from .kernel import compile_cuda, launch

LIST_BYTES = 12288 * 6  # kListed scores of four bytes, and their offsets of two
MAX_LENGTH = 2**20
MAX_CLUSTER = 16
LARGEST_PORTABLE_CLUSTER = 8  # a larger one has to be asked for, and not every GPU has it


class Launch(typing.NamedTuple):
    """threads: of a block. items: scores that a thread holds in registers, 0 for lists. cluster: blocks a row."""

    threads: int
    items: int
    cluster: int


def choose_launch(batch, length, multiprocessors, clusters):
    """The Launch for scores [batch, length].

    A short row fits the registers of one block; while each row has a multiprocessor to itself, one of twice the length
    too. A long one is shared by as many blocks as there are multiprocessors to spare (`clusters`: whether the device
    has clusters), while each still has 8192 scores to read. Larger blocks where one has very much to read.
    """
    if length <= 8192:
        return Launch(1024, 8, 1)
    if length <= 16384 and batch <= multiprocessors:
        return Launch(1024, 16, 1)
    cluster = 1
    while clusters and cluster < MAX_CLUSTER and 2 * cluster * batch <= multiprocessors:
        if length < 2 * cluster * 8192:
            break
        cluster *= 2
    large = length >= 65536 * cluster and batch * cluster <= multiprocessors
    return Launch(1024 if large else 512, 0, cluster)


def launch_exact(scores, seq_lens, page_table, topk, page_size, out, raw_out, pdl, shape=None):
    """Launch the exact kernel on validated arguments. shape: a Launch instead of the one that fits.

    Raises ValueError for a shape whose registers can't hold a row.
    """
    batch, length = scores.shape
    shape = shape or choose_launch(batch, length, *_device_limits(scores.device))
    if shape.items and length > shape.threads * shape.items:
        raise ValueError(f"{shape} holds {shape.threads * shape.items} scores in registers, but a row has {length}")
    name = f"exact_topk<{shape.threads}, {shape.items}, {shape.cluster}, {'true' if pdl else 'false'}>"
    kernel = compile_cuda("exact_topk.cu", [name], device=scores.device.type).get_function(name)
    if shape.cluster > LARGEST_PORTABLE_CLUSTER:
        _allow_cluster(kernel)
    scalars = [np.int32(length), np.int64(scores.stride(0)), np.int32(page_table.shape[1]), np.int32(topk)]
    scalars += [np.int32(page_size.bit_length() - 1)]
    arguments = (scores, seq_lens, page_table, out, raw_out, *scalars)
    shared = 0 if shape.items else LIST_BYTES
    launch(kernel, (batch * shape.cluster,), (shape.threads,), arguments, shared_mem=shared, pdl=pdl)


@functools.cache
def _device_limits(device):
    """(multiprocessors, whether there are clusters). The CPU build runs blocks one by one, so it has none."""
    if device.type == "cpu":
        return 1, False
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.major >= 9


@functools.cache
def _allow_cluster(kernel):
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    (status,) = driver.cuFuncSetAttribute(driver.CUfunction(kernel.kernel.ptr), attribute, 1)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{kernel.name} can't have clusters of {MAX_CLUSTER} blocks: {status.name}")
