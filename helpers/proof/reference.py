"""Plain torch references: what each kernel should compute, written to be read, not to be fast.

Attention is computed in float64 from the values as stored; selections and copies are compared bit by bit.
"""

import math

import torch


def store_cache_reference(k: torch.Tensor, v: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
                          indices: torch.Tensor,
                          reserved_skip_index: int = 0) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The caches [N, DK], [N, DV] as they should be after the call, as copies. Later rows win over earlier ones."""
    k_after, v_after = k_cache.clone(), v_cache.clone()
    for row, slot in enumerate(indices.tolist()):
        if slot != reserved_skip_index:
            k_after[slot] = k[row]
            v_after[slot] = v[row]
    return k_after, v_after


def slots_of(page_table: torch.Tensor, positions: torch.Tensor, page_size: int) -> torch.Tensor:
    """Cache slots int64, like `positions`: of one request (page_table [pages], positions [n] or one), or of a batch
    ([B, pages] and [B, n]). Position -1 stays -1."""
    numbers = positions.clamp(min=0) // page_size
    pages = page_table.long()[numbers] if page_table.ndim == 1 else page_table.long().gather(1, numbers)
    return torch.where(positions < 0, -1, pages * page_size + positions % page_size)


def _attend(q, k, v):
    """float64 [..., D]: softmax(q . k / sqrt(D)) v, as IEEE 754 has it. q [..., D]; k, v [..., T, D] float64.

    Products and sums one by one: a matrix product may leave out a factor of 0, and 0 times infinity is NaN.
    """
    scores = (q.cpu().double().unsqueeze(-2) * k).sum(-1) / math.sqrt(q.shape[-1])
    return (scores.softmax(-1).unsqueeze(-1) * v).sum(-2)


def sliding_window_attention_reference(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
                                       page_table: torch.Tensor, seq_lens: torch.Tensor, window: int,
                                       page_size: int) -> torch.Tensor:  # fmt: skip
    """float64 [B, H, D]: attention over the window's positions and over nothing else; NaN for length 0."""
    out = torch.full(q.shape, math.nan, dtype=torch.float64)
    group = q.shape[1] // k_cache.shape[1]
    for b, length in enumerate(seq_lens.tolist()):
        if length == 0:
            continue
        positions = torch.arange(max(0, length - window), length)
        slots = slots_of(page_table[b].cpu(), positions, page_size)
        k = k_cache.cpu()[slots].double().repeat_interleave(group, dim=1)
        v = v_cache.cpu()[slots].double().repeat_interleave(group, dim=1)
        out[b] = _attend(q[b], k.transpose(0, 1), v.transpose(0, 1))
    return out


def topk_reference(scores: torch.Tensor, seq_len: int, topk: int) -> torch.Tensor:
    """Positions of the topk largest of one row's first seq_len scores (int64), by (score descending, index ascending).

    NaN ranks below everything; -0.0 equals 0.0. Fewer than topk where the row is shorter.
    """
    row = scores[:seq_len].cpu().double()
    key = torch.where(row.isnan(), -math.inf, row)
    order = torch.argsort(key, descending=True, stable=True)
    is_nan = row.isnan()[order]
    return torch.cat([order[~is_nan], order[is_nan]])[:topk]


def sparse_attention_reference(q: torch.Tensor, kv_cache: torch.Tensor, indices: torch.Tensor,
                               seq_lens: torch.Tensor) -> torch.Tensor:  # fmt: skip
    """float64 [B, H, D]: attention over the slots named; entries that are negative or beyond the cache don't exist."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    for b, length in enumerate(seq_lens.tolist()):
        slots = indices[b, : min(length, indices.shape[1])].cpu().long()
        slots = slots[(slots >= 0) & (slots < kv_cache.shape[0])]
        if len(slots) == 0:
            continue
        rows = kv_cache.cpu()[slots].double()
        out[b] = torch.stack([_attend(head, rows, rows) for head in q[b]])
    return out


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """||actual - expected|| / ||expected|| in float64; NaN if either has one."""
    difference = actual.cpu().double() - expected.cpu().double()
    return float(difference.norm() / expected.cpu().double().norm())


def exact_positions(scores: torch.Tensor, seq_lens: torch.Tensor, topk: int) -> torch.Tensor:
    """What "exact" should select: int64 [B, topk], ascending, then -1; see topk_transform.

    scores [B, L] and seq_lens [B] on any device. Two stable sorts: by score, then numbers before NaN before what
    lies behind the row's end.
    """
    inside = torch.arange(scores.shape[1], device=scores.device) < seq_lens[:, None]
    is_nan = scores.isnan()
    rank = torch.where(inside, 1 + (~is_nan).int(), 0)
    by_score = torch.where(is_nan, -math.inf, scores + 0.0).sort(dim=1, descending=True, stable=True).indices
    by_rank = rank.gather(1, by_score).sort(dim=1, descending=True, stable=True).indices
    best = by_score.gather(1, by_rank)[:, :topk]
    if best.shape[1] < topk:
        best = torch.nn.functional.pad(best, (0, topk - best.shape[1]))
    taken = torch.arange(topk, device=scores.device) < seq_lens.clamp(0, scores.shape[1])[:, None]
    behind = scores.shape[1]
    best = torch.where(taken, best, behind).sort(dim=1).values
    return torch.where(best == behind, -1, best)
