"""The steps of kernels/exact_topk.cu in plain torch, for one row: keys, narrowing, placing. It guesses no bar."""

from typing import NamedTuple

import torch

LOWEST, HIGHEST = 0x00FFFFFE, 2**32 - 1  # the keys of NaN and of +inf
BINS = 2048
FEW = 128  # keys that are ranked, not counted


class Range(NamedTuple):
    """Keys low to high, in which the last wanted score lies: of `members` scores there, `wanted` are selected."""

    low: int
    high: int
    wanted: int
    members: int


def key_of(scores: torch.Tensor) -> torch.Tensor:
    """int64 like scores (fp32): a larger score has a larger key; -0.0 has that of 0.0, NaN the lowest."""
    bits = scores.view(torch.int32).long()
    key = torch.where(bits < 0, bits ^ -1, bits ^ -(2**31)) & HIGHEST  # sorts like scores, with NaN at both ends
    key = (key + 0x007FFFFF + (bits < 0)) & HIGHEST  # -0.0 moves up to 0.0, and NaN above +inf wrap round
    return key.clamp(min=LOWEST)


def narrow(keys: torch.Tensor, k: int) -> list[Range]:
    """The Range before the first round and after each one, until which scores are wanted is settled.

    keys int64 [L], more than k. Settled: all members are wanted, or all are equal. Few members are ranked at once.
    """
    ranges = [Range(LOWEST, HIGHEST, k, len(keys))]
    while not settled(ranges[-1]):
        last = ranges[-1]
        inside = keys[(keys >= last.low) & (keys <= last.high)]
        low, high = int(inside.min()), int(inside.max())
        if last.members <= FEW:
            low = high = int(inside.sort(descending=True).values[last.wanted - 1])
        if low == high:
            wanted = last.wanted - int((inside > high).sum())
            ranges.append(Range(low, high, wanted, int((inside == high).sum())))
            break
        shift = ((last.high - last.low) // BINS).bit_length()
        from_top = torch.bincount((inside - last.low) >> shift, minlength=BINS).flip(0)
        place = int((from_top.cumsum(0) < last.wanted).sum())
        start = last.low + ((BINS - 1 - place) << shift)
        end = min(start + (1 << shift) - 1, last.high)
        ranges.append(Range(start, end, last.wanted - int(from_top[:place].sum()), int(from_top[place])))
    return ranges


def settled(found: Range) -> bool:
    """Whether which scores are wanted is known: all members are, or all are equal."""
    return found.members == found.wanted or found.low == found.high


def place(above: torch.Tensor, equal: torch.Tensor, wanted: int) -> torch.Tensor:
    """The slot of each position (int64 [n]), -1 where it is not selected.

    above, equal: bool [n], scores above the last wanted one, and those like it, of which the first `wanted` are taken.
    """
    above_before = above.cumsum(0) - above.long()
    equal_before = equal.cumsum(0) - equal.long()
    taken = above | (equal & (equal_before < wanted))
    return torch.where(taken, above_before + equal_before.clamp(max=wanted), -1)


def select(row: torch.Tensor, k: int) -> torch.Tensor:
    """Positions (int64 [k], ascending) of the k largest of row (fp32 [L], L > k)."""
    keys = key_of(row)
    last = narrow(keys, k)[-1]
    slots = place(keys > last.high, (keys >= last.low) & (keys <= last.high), last.wanted)
    return (slots >= 0).nonzero().flatten()
