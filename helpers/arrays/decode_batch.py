"""The static buffers of a recorded decode step: what lessons 12 and 13 run their kernels on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from helpers.kernel import captured, device

from .inputs import generator, page_table


class DecodeBatch:
    """Requests of the given lengths, one a row; rows behind them are padding.

    lengths: tokens of each request in step 0, the new one counted in. layers, width: of the caches.
    rows: rows of the batch, at least len(lengths). pad_length: what padding rows have as their length. A padding row
    aims at slot 0, and all of its page table is page 0. steps: how many steps the page tables have room for.

    seq_lens, slots [rows], table [rows, pages]: int32. k_cache, v_cache: fp32 [layers, slots, width], full of
    ordinary numbers at first. hidden [rows, width]: the input of a step, 0 in padding rows.
    """

    def __init__(self, lengths: Sequence[int], width: int, layers: int = 1, *, rows: int = 8, page_size: int = 16,
                 pad_length: int = 0, steps: int = 8) -> None:  # fmt: skip
        pages = -(-(max(lengths) + steps) // page_size)
        slots = (len(lengths) * pages + 1) * page_size
        self.lengths, self.page_size = list(lengths), page_size
        self._own_pages = page_table(len(lengths), pages)
        g = generator(12)
        self.k_cache, self.v_cache = (torch.randn(layers, slots, width, generator=g).to(device()) for _ in range(2))
        self._tokens = torch.randn(steps, len(lengths), width, generator=g).to(device())
        self.hidden = torch.zeros(rows, width, device=device())
        self.seq_lens = torch.full((rows,), pad_length, dtype=torch.int32, device=device())
        self.slots = torch.zeros_like(self.seq_lens)
        self.table = torch.zeros(rows, pages, dtype=torch.int32, device=device())
        self.fill(0)

    def fill(self, step: int) -> None:
        """Write what a server writes before it replays a step: each request's token, slot, length and pages in use."""
        self.hidden[: len(self.lengths)] = self._tokens[step]
        for row, start in enumerate(self.lengths):
            length = start + step
            used = -(-length // self.page_size)
            self.seq_lens[row] = length
            self.table[row, :used] = self._own_pages[row, :used].to(device())
            self.slots[row] = int(self._own_pages[row, used - 1]) * self.page_size + (length - 1) % self.page_size


def recorded(step: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph, to be replayed by calling it. Without a GPU: the step itself."""
    return step if device() == "cpu" else captured(step)
