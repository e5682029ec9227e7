"""Calls of the two attention kernels with values at which attention goes wrong, each beside what IEEE says it gives.

Huge, infinite and NaN values stand where they count: in attended rows (first and last of the window, at the edges of
tiles, or all of them), in masked and padded ones, in skipped ones, in q.
"""

import math
import random
from typing import NamedTuple

import torch

from helpers.arrays.inputs import generator, page_table
from helpers.operations.sliding_window_attention import TILE, sliding_window_attention
from helpers.operations.sparse_attention import sparse_attention

from .reference import sliding_window_attention_reference, sparse_attention_reference

# Powers of two where products of them must be summed exactly: huge scores that differ in rounding only would choose
# another row in each order of summation.
HARD = (math.nan, math.inf, -math.inf, 3e38, -3e38, 2.0**65, -(2.0**65), 0.0, 1.0)
DIM = 64


class Call(NamedTuple):
    """run: name of a variant -> its output [B, H, D]. expected: likewise, float64. what: the draw, to be reported."""

    run: dict
    expected: dict
    what: str


def _pick(draw, low, high):
    """A place in [low, high): often the first, the last, or one beside a tile's edge."""
    edges = [p for p in (low, high - 1, low // TILE * TILE + TILE - 1, (high - 1) // TILE * TILE) if low <= p < high]
    return draw.choice([*edges, draw.randrange(low, high)])


def window_call(draw: random.Random, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Call:
    """A call of sliding_window_attention. draw: a random.Random, or what hypothesis gives in its place."""
    batch, page_size = draw.randint(1, 4), draw.choice((1, 7, 16, 64))
    lengths = [max(0, draw.choice((1, 2, 3)) * TILE + draw.choice((-64, -1, 0, 1, 36, 63))) for _ in range(batch)]
    # Often as wide as leaves one position in the first tile.
    window = draw.choice((1, 37, 64, 65, 100, max(1, lengths[0] - TILE + 1)))
    pages = -(-max(lengths) // page_size) + draw.randint(1, 3)
    g = generator(draw.randrange(2**31))
    table = page_table(batch, pages, seed=draw.randrange(2**31))
    for row, length in zip(table, lengths, strict=True):
        row[-(-length // page_size) :] = 0
    q = torch.randn(batch, 2, DIM, generator=g)
    k, v = torch.randn(2, (batch * pages + 1) * page_size, 1, DIM, generator=g)
    if draw.random() < 0.7:
        q[:] = draw.choice((1.0, -1.0, 2.0**-6))
    if draw.random() < 0.15:
        q[draw.randrange(batch), draw.randrange(2), draw.randrange(DIM)] = draw.choice(HARD)
    placed = []
    for _ in range(draw.randint(0, 5)):
        b, caches = draw.randrange(batch), draw.choice(("k", "k", "v", "kv"))
        start, end = max(0, lengths[b] - window), lengths[b]
        where = draw.choice(("one attended", "the first tile", "all attended", "before", "behind", "slot 0"))
        if where == "slot 0":
            slots = [0]
        else:
            places = {"before": range(start // TILE * TILE, start), "behind": range(end, -(-end // TILE) * TILE),
                      "the first tile": range(start, min(end, start // TILE * TILE + TILE))}  # fmt: skip
            places = places.get(where, range(start, end))
            if not places:
                continue
            whole = where in ("all attended", "the first tile")
            chosen = places if whole else [_pick(draw, places.start, places.stop)]
            slots = [_slot(table[b], p, page_size) for p in chosen]
        for name in caches:
            value = draw.choice((*HARD, -math.inf, -math.inf)) if name == "k" else draw.choice(HARD)
            {"k": k, "v": v}[name][slots] = value
            placed.append(f"{value} in {name}, {where} of row {b}")
    tensors = [t.to(device) for t in (q.to(dtype), k.to(dtype), v.to(dtype), table, torch.tensor(lengths).int())]
    selected = sliding_window_attention_reference(*tensors, window, page_size)
    multiplied = selected + _leak(tensors[2].cpu(), table, lengths, window, page_size)
    run = {how: sliding_window_attention(*tensors, window, page_size, masking=how) for how in ("select", "multiply")}
    what = f"lengths {lengths}, window {window}, page size {page_size}, q {q.flatten()[0]:g}; {'; '.join(placed)}"
    return Call(run, {"select": selected, "multiply": multiplied}, what)


def _slot(pages, position, page_size):
    number = position // page_size
    page = int(pages[number]) if number < len(pages) else 0
    return page * page_size + position % page_size


def _leak(v, table, lengths, window, page_size):
    """float64 [B, 1, D]: NaN where a tile brings in a masked value that is not finite, else 0; the bug, in one line."""
    leak = torch.zeros(len(lengths), 1, DIM, dtype=torch.float64)
    for b, length in enumerate(lengths):
        start = max(0, length - window)
        masked = [*range(start // TILE * TILE, start), *range(length, -(-length // TILE) * TILE)]
        rows = v[[_slot(table[b], p, page_size) for p in masked], 0].double()
        leak[b, 0] = (0 * rows).sum(dim=0)
    return leak


def sparse_call(draw: random.Random, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Call:
    """A call of sparse_attention, with "trust" where no entry is skipped. draw: as for window_call."""
    batch, slots, topk = draw.randint(1, 4), draw.randint(2, 40), draw.randint(1, 24)
    g = generator(draw.randrange(2**31))
    q, kv = torch.randn(batch, 2, DIM, generator=g), torch.randn(slots, DIM, generator=g)
    indices = torch.randint(0, slots, (batch, topk), generator=g).int()
    lengths = torch.tensor([draw.choice((0, 1, topk, topk + 5, draw.randint(0, topk))) for _ in range(batch)]).int()
    if draw.random() < 0.7:
        q[:] = draw.choice((1.0, -1.0, 2.0**65))
    if draw.random() < 0.15:
        q[draw.randrange(batch), draw.randrange(2), draw.randrange(DIM)] = draw.choice(HARD)
    placed = []
    for _ in range(draw.randint(0, 4)):
        value, slot = draw.choice(HARD), draw.randrange(slots)
        kv[slot if draw.random() < 0.8 else slice(None)] = value
        placed.append(f"{value} in slot {slot}")
    checked = draw.random() < 0.5
    if checked:
        nowhere = torch.rand(batch, topk, generator=g) < draw.choice((0.2, 1.0))
        indices[nowhere] = draw.choice((-1, -7, slots, 2**31 - 1))
    tensors = [t.to(device) for t in (q.to(dtype), kv.to(dtype), indices, lengths)]
    run = {how: sparse_attention(*tensors, sentinel=how) for how in (("check",) if checked else ("check", "trust"))}
    expected = sparse_attention_reference(*tensors)
    what = f"{slots} slots, lengths {lengths.tolist()}, indices {indices.tolist()}, q {q.flatten()[0]:g}; {placed}"
    return Call(run, dict.fromkeys(run, expected), what)


def wrong_rows(actual: torch.Tensor, expected: torch.Tensor, limit: float) -> torch.Tensor:
    """bool [B]: rows [B, H, D] that differ from float64: in where NaN is, in an infinity, or by more than `limit` of
    their largest finite element."""
    actual, expected = actual.detach().cpu().double(), expected.to(actual.dtype).cpu().double()
    finite = expected.isfinite()
    size = expected.where(finite, 0).abs().amax(dim=(1, 2), keepdim=True)
    near = (actual - expected).abs() <= limit * size
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return ~(near & finite | same).all(dim=2).all(dim=1)
