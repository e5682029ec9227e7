"""Host side of kernels/store_cache.cu: validate, choose the launch, launch."""

import itertools

import numpy as np
import torch

from helpers.kernel import compile_cuda, launch

from . import Chosen
from .arguments import (
    check_values,
    require_apart,
    require_bool,
    require_count,
    require_int,
    require_one_of,
    require_range,
    require_tensor,
    row_stride_bytes,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2)
INDEX_TYPES = {torch.int32: "int", torch.int64: "long long"}
SPLITS = (1, 2, 4)  # warps that share a row
WARPS_PER_BLOCK = 4
MAX_ROWS = 2**29 - 1  # the kernel counts its warps, up to four a row, in an int

VARIANTS = [
    f"store_cache<{index}, {split}, {vector}, {pdl}>"
    for index in INDEX_TYPES.values()
    for split in SPLITS
    for vector in (4, 8, 16)
    for pdl in ("false", "true")
]


def store_cache(k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, indices: torch.Tensor,
                row_bytes: int = 0, num_split: int = 0, size_limit: int = 0, reserved_skip_index: int = 0, *,
                pdl: bool = False) -> None:  # fmt: skip
    """Copy row i of `k` and `v` to slot `indices[i]` of the caches, unless that slot is `reserved_skip_index`.

    k [B, DK], v [B, DV], k_cache [N, DK], v_cache [N, DV]: one dtype of fp16, bf16, fp32, fp8; rows may be strided.
    indices [B]: int32 or int64. With duplicate indices any of the rows may win, and with several warps a row
    the winner may be torn.

    row_bytes: bytes of a K row, 0 infers them. num_split: warps that share a row, 0 chooses of 1, 2, 4.
    size_limit: slots that may be written, 0 means N. reserved_skip_index: any negative switches the skip off.
    pdl: launch with programmatic dependent launch (GPU; nothing changes on a CPU).

    Raises TypeError or ValueError before anything is written. An index outside [0, size_limit) is found here
    unless KERNEL_CHECK=0 or a CUDA graph is being captured; then the kernel traps.

    The idea: sgl-project/sglang#32477.
    """
    require_tensor("k", k, dtypes=DTYPES, ndim=2)
    rows, device = k.shape[0], k.device
    require_int("the number of rows in k", rows, 0, MAX_ROWS)
    require_tensor("v", v, dtypes=(k.dtype,), ndim=2, device=device, shape=(rows, None))
    require_tensor("k_cache", k_cache, dtypes=(k.dtype,), ndim=2, device=device, shape=(None, k.shape[1]))
    slots = k_cache.shape[0]
    require_tensor("v_cache", v_cache, dtypes=(k.dtype,), ndim=2, device=device, shape=(slots, v.shape[1]))
    require_tensor("indices", indices, dtypes=tuple(INDEX_TYPES), ndim=1, device=device, shape=(rows,))
    for name, tensor in (("k", k), ("v", v)):
        if tensor.shape[1] == 0:
            raise ValueError(f"{name} has shape {list(tensor.shape)}; it should have at least one column")
        require_count(f"the bytes of a row of {name}", tensor.shape[1] * tensor.element_size())
    require_one_of("num_split", num_split, (0, *SPLITS))
    require_bool("pdl", pdl)
    require_int("size_limit", size_limit, 0, slots)
    require_int("reserved_skip_index", reserved_skip_index, -(2**63), 2**63 - 1)

    k_bytes = k.shape[1] * k.element_size()
    v_bytes = v.shape[1] * v.element_size()
    require_one_of("row_bytes", row_bytes, (0, k_bytes))
    split = num_split or choose_split(k_bytes, v_bytes)
    vector = choose_vector(k_bytes, v_bytes, split)
    for name, tensor in (("k", k), ("v", v), ("k_cache", k_cache), ("v_cache", v_cache)):
        _require_alignment(name, tensor, vector)
    require_apart({"k_cache": k_cache, "v_cache": v_cache}, {"k": k, "v": v, "indices": indices})
    size_limit = size_limit or slots
    if rows == 0:
        return
    if check_values():
        require_range("indices", indices, 0, size_limit, "a slot")

    name = f"store_cache<{INDEX_TYPES[indices.dtype]}, {split}, {vector}, {'true' if pdl else 'false'}>"
    kernel = compile_cuda("store_cache.cu", VARIANTS, device=device.type).get_function(name)
    blocks = -(-rows * split // WARPS_PER_BLOCK)
    strides = [np.int64(row_stride_bytes(tensor)) for tensor in (k, v, k_cache, v_cache)]
    scalars = [np.int32(rows), np.int32(k_bytes), np.int32(v_bytes), *strides]
    scalars += [np.int64(size_limit), np.int64(reserved_skip_index)]
    launch(kernel, (blocks,), (32 * WARPS_PER_BLOCK,), (k, v, k_cache, v_cache, indices, *scalars), pdl=pdl)


def choose_split(k_bytes: int, v_bytes: int) -> int:
    """Warps that share a row: doubled while each lane still has 64 bytes to copy, in vectors no narrower."""
    split = 1
    while split < SPLITS[-1] and (k_bytes + v_bytes) // (64 * split) >= 64:
        narrower = _widest_vector(k_bytes, v_bytes, 2 * split)
        if not narrower or narrower < _widest_vector(k_bytes, v_bytes, split):
            break
        split *= 2
    return split


def choose_vector(k_bytes: int, v_bytes: int, split: int) -> int:
    """Bytes a lane moves at a time: the widest with which a whole warp can share a warp's part of the row.

    Raises ValueError where `split` warps can't share the row, or no vector width divides it.
    """
    for name, row in (("k", k_bytes), ("v", v_bytes)):
        if split > 1 and row % (128 * split):
            raise ValueError(
                f"num_split is {split}, but a row of {name} has {row} bytes; "
                f"{split} warps share a row only if {128 * split} divides it"
            )
        if row % 4:
            raise ValueError(f"a row of {name} has {row} bytes; it should be a multiple of 4, the narrowest vector")
    return _widest_vector(k_bytes, v_bytes, split) or 4


def _widest_vector(k_bytes, v_bytes, split):
    """16, 8 or 4 bytes, if 32 lanes of `split` warps share both rows evenly in vectors of that size; else 0."""
    for vector in (16, 8, 4):
        if k_bytes % (32 * vector * split) == 0 and v_bytes % (32 * vector * split) == 0:
            return vector
    return 0


def _require_alignment(name, tensor, vector):
    if tensor.data_ptr() % vector:
        raise ValueError(f"{name} starts at address {tensor.data_ptr():#x}; it should be a multiple of {vector} bytes")
    stride = row_stride_bytes(tensor)
    if stride % vector:
        raise ValueError(f"{name} has a row stride of {stride} bytes; it should be a multiple of {vector}")


def launches(arch: str, shared_bytes: int) -> list[Chosen]:
    """Every one of VARIANTS; the same on every architecture."""
    return [Chosen(name, 32 * WARPS_PER_BLOCK) for name in VARIANTS]


def try_variants(where: str) -> None:
    """Eight rows into 16 slots: padding rows, which are skipped, and strided ones; both index types, PDL on and off."""
    shapes = [(64, 1), (128, 1), (256, 1)]  # columns of bf16, warps a row: each vector width with each split
    shapes += [(split * columns, split) for columns, split in itertools.product((64, 128, 256), (2, 4))]
    for (columns, split), dtype, pdl in itertools.product(shapes, (torch.int32, torch.int64), (False, True)):
        k, v = torch.randn(8, 2 * columns, device=where).bfloat16().chunk(2, dim=1)
        caches = torch.zeros(2, 16, columns, dtype=torch.bfloat16, device=where)
        indices = torch.tensor([3, 0, 7, 0, 9, 1, 0, 15], dtype=dtype, device=where)
        store_cache(k, v, *caches, indices, num_split=split, pdl=pdl)
    store_cache(k[:1], v[:1], *caches, indices[1:2], reserved_skip_index=-1)
