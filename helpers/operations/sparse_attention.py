"""Host side of kernels/sparse_attention.cu: validate, choose the launch, launch."""

import itertools
import math

import numpy as np
import torch

from helpers.kernel import compile_cuda, launch

from . import Chosen
from .arguments import (
    check_values,
    require_contiguous,
    require_count,
    require_int,
    require_one_of,
    require_range,
    require_tensor,
)

DTYPES = {torch.float32: "float", torch.bfloat16: "__nv_bfloat16"}
SENTINELS = {"trust": "Trust", "check": "Check"}
MAX_TOPK = 2048
MAX_HEADS = 65535  # a grid's second dimension
THREADS = 128


def sparse_attention(q: torch.Tensor, kv_cache: torch.Tensor, indices: torch.Tensor, seq_lens: torch.Tensor,
                     sentinel: str = "check") -> torch.Tensor:  # fmt: skip
    """One decode step of attention over the cache slots in `indices`: like q.

    q [B, H, D]; kv_cache [N, D], fp32 or bf16, one row a token that serves as key and value of all heads;
    indices [B, topk] int32, topk up to 2048; seq_lens [B] int32. Entry i of a row counts if i < seq_lens[b].
    sentinel: "check" skips entries that name no slot (-1, or N and above), "trust" reads every one unchecked:
    with a bad index it reads a neighbour's memory or dies of an illegal access. Nothing to attend to gives 0.
    Scores and sums are float64: finite inputs give a finite output, and what is attended and is not finite (a NaN, a
    score of +inf, a value of inf with weight 0) gives NaN as IEEE 754 has it.

    Raises TypeError or ValueError before anything is written; the indices' contents are the kernel's business.
    """
    require_tensor("q", q, dtypes=tuple(DTYPES), ndim=3)
    (batch, heads, dim), device = q.shape, q.device
    require_tensor("kv_cache", kv_cache, dtypes=(q.dtype,), ndim=2, device=device, shape=(None, dim))
    require_tensor("indices", indices, dtypes=(torch.int32,), ndim=2, device=device, shape=(batch, None))
    require_tensor("seq_lens", seq_lens, dtypes=(torch.int32,), ndim=1, device=device, shape=(batch,))
    for name, tensor in {"q": q, "kv_cache": kv_cache, "indices": indices, "seq_lens": seq_lens}.items():
        require_contiguous(name, tensor)
    require_int("the last dimension of q", dim, 1, 2**20)
    require_int("the number of heads in q", heads, 0, MAX_HEADS)
    topk = indices.shape[1]
    require_int("the second dimension of indices", topk, 1, MAX_TOPK)
    require_count("the number of rows in kv_cache", kv_cache.shape[0])
    require_one_of("sentinel", sentinel, tuple(SENTINELS))
    if check_values():
        require_range("seq_lens", seq_lens, 0, 2**31, "a length")
    out = torch.empty_like(q)
    if batch == 0 or heads == 0:
        return out

    names = {key: f"sparse_attention<{DTYPES[q.dtype]}, Sentinel::{value}>" for key, value in SENTINELS.items()}
    module = compile_cuda("sparse_attention.cu", list(names.values()), device=device.type)
    scalars = [np.int32(n) for n in (heads, dim, topk, kv_cache.shape[0])] + [np.float32(1 / math.sqrt(dim))]
    arguments = (q, kv_cache, indices, seq_lens, out, *scalars)
    launch(module.get_function(names[sentinel]), (batch, heads), (THREADS,), arguments)
    return out


def launches(arch: str, shared_bytes: int) -> list[Chosen]:
    """Each dtype with each sentinel; the same on every architecture."""
    each = itertools.product(DTYPES.values(), SENTINELS.values())
    return [Chosen(f"sparse_attention<{t}, Sentinel::{s}>", THREADS) for t, s in each]


def try_variants(where: str) -> None:
    """A row that counts in full and a short one; where entries are checked, a hundred of them are -1."""
    lengths = torch.tensor([7613, 5], dtype=torch.int32, device=where)
    for sentinel, dtype in itertools.product(SENTINELS, DTYPES):
        cache = torch.randn(4096, 64, device=where).to(dtype)
        indices = torch.randint(0, 4096, (2, 2048), dtype=torch.int32, device=where)
        if sentinel == "check":
            indices[:, 1000:1100] = -1
        sparse_attention(cache[:8].view(2, 4, 64), cache, indices, lengths, sentinel=sentinel)
