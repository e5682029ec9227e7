"""Host side of kernels/sliding_window_attention.cu: validate, choose the launch, launch."""

import itertools
import math

import numpy as np
import torch

from helpers.arrays.inputs import page_table
from helpers.kernel import compile_cuda, launch

from . import Chosen
from .arguments import (
    check_values,
    require_contiguous,
    require_count,
    require_int,
    require_one_of,
    require_page_table_covers,
    require_range,
    require_tensor,
)

DTYPES = {torch.float32: "float", torch.bfloat16: "__nv_bfloat16"}
HEAD_DIMS = (64, 128)
MASKINGS = {"multiply": "Multiply", "select": "Select"}
TILE = 64  # positions that the kernel stages at a time
THREADS = 128
MAX_HEADS = 65535  # a grid's second dimension


def sliding_window_attention(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, page_table: torch.Tensor,
                             seq_lens: torch.Tensor, window: int, page_size: int,
                             masking: str = "multiply") -> torch.Tensor:  # fmt: skip
    """One decode step of attention over each request's last `window` tokens: like q.

    q [B, H, D]; k_cache, v_cache [N, Hkv, D], fp32 or bf16, D 64 or 128, Hkv divides H;
    page_table [B, pages] int32, pages of `page_size` tokens (1 to 64), padded with page 0; seq_lens [B] int32.
    The kernel loads whole tiles of 64 positions before it masks them. masking: "multiply" adds weight 0 times
    a masked value, "select" leaves it out. A request of length 0 gives NaN (0 / 0).
    Scores and sums are float64: finite inputs give a finite output, and what is attended and is not finite (a NaN, a
    score of +inf, a value of inf with weight 0) gives NaN as IEEE 754 has it.

    Raises TypeError or ValueError before anything is written. Contents of seq_lens and page_table are read unless
    KERNEL_CHECK=0 or a CUDA graph is being captured.
    """
    require_tensor("q", q, dtypes=tuple(DTYPES), ndim=3)
    (batch, heads, dim), device = q.shape, q.device
    require_one_of("the last dimension of q", dim, HEAD_DIMS)
    require_tensor("k_cache", k_cache, dtypes=(q.dtype,), ndim=3, device=device, shape=(None, None, dim))
    require_tensor("v_cache", v_cache, dtypes=(q.dtype,), ndim=3, device=device, shape=tuple(k_cache.shape))
    require_tensor("page_table", page_table, dtypes=(torch.int32,), ndim=2, device=device, shape=(batch, None))
    require_tensor("seq_lens", seq_lens, dtypes=(torch.int32,), ndim=1, device=device, shape=(batch,))
    tensors = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "page_table": page_table, "seq_lens": seq_lens}
    for name, tensor in tensors.items():
        require_contiguous(name, tensor)
    slots, kv_heads = k_cache.shape[:2]
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"q has {heads} heads and k_cache {kv_heads}; the heads of q should be a multiple")
    require_int("the number of heads in q", heads, 0, MAX_HEADS)
    require_int("window", window, 1, 2**30)
    require_int("page_size", page_size, 1, TILE)
    require_one_of("masking", masking, tuple(MASKINGS))
    if slots < page_size:
        raise ValueError(f"k_cache has {slots} slots; it should hold at least page 0, which is {page_size}")
    pages = page_table.shape[1]
    require_count("the number of pages in page_table, all rows together,", batch * pages)
    if check_values():
        require_range("seq_lens", seq_lens, 0, 2**30, "a length")
        require_range("page_table", page_table, 0, slots // page_size, "a page")
        require_page_table_covers(seq_lens, pages, page_size)
    out = torch.empty_like(q)
    if batch == 0 or heads == 0:
        return out

    names = {key: f"sliding_window_attention<{DTYPES[q.dtype]}, {dim}, Masking::{value}>"
             for key, value in MASKINGS.items()}  # fmt: skip
    module = compile_cuda("sliding_window_attention.cu", list(names.values()), device=device.type)
    scalars = [np.int32(n) for n in (heads, kv_heads, pages, window, page_size)] + [np.float32(1 / math.sqrt(dim))]
    arguments = (q, k_cache, v_cache, page_table, seq_lens, out, *scalars)
    launch(module.get_function(names[masking]), (batch, heads), (THREADS,), arguments)
    return out


def launches(arch: str, shared_bytes: int) -> list[Chosen]:
    """Each dtype with each head dimension and each masking; the same on every architecture."""
    each = itertools.product(DTYPES.values(), HEAD_DIMS, MASKINGS.values())
    return [Chosen(f"sliding_window_attention<{t}, {d}, Masking::{m}>", THREADS) for t, d, m in each]


def try_variants(where: str) -> None:
    """Requests of one position, of one tile, of a part of one more, and longer than the window."""
    lengths = torch.tensor([1, 64, 70, 200], dtype=torch.int32, device=where)
    table = page_table(4, 4).to(where)
    for masking, dtype, dim in itertools.product(MASKINGS, DTYPES, HEAD_DIMS):
        q = torch.randn(4, 4, dim, device=where).to(dtype)
        k_cache, v_cache = torch.randn(2, 17 * 64, 2, dim, device=where).to(dtype)
        sliding_window_attention(q, k_cache, v_cache, table, lengths, 128, 64, masking=masking)
