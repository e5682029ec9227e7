"""The paged caches of the small server, and attention through them with the bundled CUDA kernels.

A slot holds what the layers keep of one token; a page is `page_size` slots in a row. Page 0 belongs to nobody: its
slot 0 is where padding rows of a batch aim, and page tables are padded with it.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.arrays.memory import guarded
from helpers.operations.arguments import require_int, require_one_of
from helpers.operations.sliding_window_attention import sliding_window_attention
from helpers.operations.sparse_attention import SENTINELS, sparse_attention
from helpers.operations.store_cache import store_cache
from helpers.operations.topk_transform import OVERFLOWS, topk_transform

from .model import index_scores

MAX_TIES = 16  # of the top-k's tie buffer: 1024 in a real server, for a k of 2048
BIN_BITS = 10  # of its histogram: 12 in a real server, for scores of a hundred thousand tokens


@dataclass(frozen=True)
class Variant:
    """What the two fixes changed. The defaults are the server after both.

    skip: `reserved_skip_index` of store_cache: 0, or -1 to store padding rows too.
    overflow: what topk_transform does with slots that nobody fills. sentinel: what sparse_attention does with -1.
    """

    skip: int = 0
    overflow: str = "exact"
    sentinel: str = "check"

    def __post_init__(self):
        require_int("skip", self.skip, -1, 2**31 - 1)
        require_one_of("overflow", self.overflow, ("exact", *OVERFLOWS))
        require_one_of("sentinel", self.sentinel, tuple(SENTINELS))


class Pool:
    """What every layer keeps of every slot, and which pages are free.

    layers[number] is (k, v) [slots, head_dim] of a window layer, (row, index_k) [slots, dim] of a sparse one, fp32.
    Rows of sparse layers lie between unmapped memory, so that a read beyond them is a fault on every machine.
    """

    def __init__(self, sizes, pages, page_size, device):
        self.page_size, self.pages = page_size, pages
        slots = pages * page_size
        self.layers: list[tuple[Tensor, Tensor]] = []
        for kind in (*sizes.layers, "window"):
            if kind == "window":
                self.layers.append(tuple(torch.zeros(slots, sizes.head_dim, device=device) for _ in range(2)))
            else:
                rows = between_guards(torch.zeros(slots, sizes.latent, device=device))
                self.layers.append((rows, torch.zeros(slots, sizes.index_dim, device=device)))
        self.free = list(range(pages - 1, 0, -1))

    def take(self, count: int) -> list[int]:
        """`count` free pages; the caller asks for no more than there are."""
        return [self.free.pop() for _ in range(count)]

    def slot_0_is_nan(self) -> Tensor:
        """bool []: whether any layer holds NaN in the reserved slot."""
        return torch.stack([torch.cat([cache[0] for cache in layer]).isnan().any() for layer in self.layers]).any()


def slots_of(pages: list[int], positions: range, page_size: int) -> list[int]:
    """The slots of these positions of a request, given its pages."""
    return [pages[p // page_size] * page_size + p % page_size for p in positions]


class PagedAttention:
    """What a step of the engine attends with: T tokens of each of B requests, as B x T rows of the decode kernels.

    lengths [B, T] int32: how many tokens a row attends to, itself included; below 0 counts as 0.
    slots [B, T] int32: where a row is stored. table [B, pages] int32: the requests' pages, padded with page 0.
    """

    def __init__(self, pool, sizes, variant, lengths, slots, table):
        self.pool, self.sizes, self.variant = pool, sizes, variant
        # Padding rows come with lengths below 0; they attend to nothing (sgl-project/sglang#30378).
        self.lengths, self.slots = lengths.flatten().clamp(min=0), slots.flatten().contiguous()
        self.table = table
        self.row_table = table.unsqueeze(1).expand(-1, lengths.shape[1], -1).flatten(0, 1).contiguous()

    def window(self, number: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `Attention.window`. Stores k and v first, then runs sliding_window_attention."""
        k_cache, v_cache = self.pool.layers[number]
        self._store(k, v, k_cache, v_cache)
        return sliding_window_attention(
            q.flatten(0, 1).contiguous(), k_cache.unsqueeze(1), v_cache.unsqueeze(1), self.row_table, self.lengths,
            self.sizes.window, self.pool.page_size, masking="multiply",
        ).view(q.shape)  # fmt: skip

    def sparse(self, number: int, q: Tensor, row: Tensor, index: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """See `Attention.sparse`. Stores row and index_k first, then runs topk_transform and sparse_attention."""
        rows, index_keys = self.pool.layers[number]
        index_q, weight, index_k = index
        self._store(row, index_k, rows, index_keys)
        keys = index_keys.unflatten(0, (-1, self.pool.page_size))[self.table.long()].flatten(1, 2)
        scores = index_scores(index_q, weight, keys).flatten(0, 1).contiguous()
        chosen = topk_transform(
            scores, self.lengths, self.row_table, self.sizes.topk, self.pool.page_size,
            overflow=self.variant.overflow, max_ties=MAX_TIES, bin_bits=BIN_BITS,
        )  # fmt: skip
        q_rows = q.flatten(0, 1).contiguous()
        return sparse_attention(q_rows, rows, chosen, self.lengths, sentinel=self.variant.sentinel).view(q.shape)

    def _store(self, k, v, k_cache, v_cache):
        store_cache(k.flatten(0, 1), v.flatten(0, 1), k_cache, v_cache, self.slots,
                    reserved_skip_index=self.variant.skip)  # fmt: skip


def between_guards(tensor: Tensor) -> Tensor:
    """A copy of `tensor` between unmapped memory: `memory.guarded` on a GPU, and the same for a CPU's fast mode."""
    if tensor.device.type == "cuda":
        return guarded(tensor)
    page, num_bytes = mmap.PAGESIZE, tensor.numel() * tensor.element_size()
    size = -(-num_bytes // page) * page
    block = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for guard in (start, start + page + size):
        if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect refused to make a guard page")
    flat = torch.frombuffer(block, dtype=tensor.dtype, count=tensor.numel(), offset=page)
    return flat.view(tensor.shape).copy_(tensor)
