"""Plain torch references: what each kernel should compute, written to be read, not to be fast.

Attention is computed in float64 from the values as stored; selections and copies are compared bit by bit.
"""

import math

import torch


def store_cache_reference(k, v, k_cache, v_cache, indices, reserved_skip_index=0):
    """The caches [N, DK], [N, DV] as they should be after the call, as copies. Later rows win over earlier ones."""
    k_after, v_after = k_cache.clone(), v_cache.clone()
    for row, slot in enumerate(indices.tolist()):
        if slot != reserved_skip_index:
            k_after[slot] = k[row]
            v_after[slot] = v[row]
    return k_after, v_after


def slots_of(page_table_row, positions, page_size):
    """Cache slots of `positions` (int64 [n]) of one request, through its page table row."""
    return page_table_row.long()[positions // page_size] * page_size + positions % page_size


def sliding_window_attention_reference(q, k_cache, v_cache, page_table, seq_lens, window, page_size):
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
        scores = torch.einsum("hd,thd->ht", q[b].cpu().double(), k) / math.sqrt(q.shape[2])
        out[b] = torch.einsum("ht,thd->hd", scores.softmax(dim=1), v)
    return out


def topk_reference(scores, seq_len, topk):
    """Positions of the topk largest of one row's first seq_len scores (int64), by (score descending, index ascending).

    NaN ranks below everything; -0.0 equals 0.0. Fewer than topk where the row is shorter.
    """
    row = scores[:seq_len].cpu().double()
    key = torch.where(row.isnan(), -math.inf, row)
    order = torch.argsort(key, descending=True, stable=True)
    is_nan = row.isnan()[order]
    return torch.cat([order[~is_nan], order[is_nan]])[:topk]


def sparse_attention_reference(q, kv_cache, indices, seq_lens):
    """float64 [B, H, D]: attention over the slots named; entries that are negative or beyond the cache don't exist."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    for b, length in enumerate(seq_lens.tolist()):
        slots = indices[b, : min(length, indices.shape[1])].cpu().long()
        slots = slots[(slots >= 0) & (slots < kv_cache.shape[0])]
        if len(slots) == 0:
            continue
        rows = kv_cache.cpu()[slots].double()
        scores = q[b].cpu().double() @ rows.T / math.sqrt(q.shape[2])
        out[b] = scores.softmax(dim=1) @ rows
    return out


def relative_error(actual, expected):
    """||actual - expected|| / ||expected|| in float64; NaN if either has one."""
    difference = actual.cpu().double() - expected.cpu().double()
    return float(difference.norm() / expected.cpu().double().norm())
