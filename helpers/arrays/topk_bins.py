"""The histogram of kernels/topk_transform.cu in plain torch: which bin a score is in, and where the threshold lies."""

import torch


def coarse_bin(scores: torch.Tensor, bits: int = 12) -> torch.Tensor:
    """Bin of each score (int64, like `scores`): the top `bits` of an order-preserving image of its fp16 rounding.

    As on a GPU, every NaN rounds to the fp16 value 0x7FFF, so its bin is the highest.
    """
    half = torch.where(scores.isnan(), 0x7FFF, scores.half().view(torch.int16).long() & 0xFFFF)
    image = torch.where(half >= 0x8000, half ^ 0xFFFF, half | 0x8000)
    return image >> (16 - bits)


def bin_start(number: int, bits: int = 12) -> float:
    """The lowest fp16 value in a bin; NaN for bins that hold nothing but NaN."""
    image = number << (16 - bits)
    half = image ^ 0x8000 if image >= 0x8000 else image ^ 0xFFFF
    return float(torch.tensor([half], dtype=torch.int32).to(torch.int16).view(torch.float16))


def find_threshold(histogram: torch.Tensor, k: int) -> tuple[int, int]:
    """(bin, above): counted from the top, the bin in which the count reaches k, and how many lie above it."""
    from_top = histogram.flip(0).cumsum(0)
    steps = int((from_top < k).sum())  # bins from the top that don't reach k yet
    number = len(histogram) - 1 - steps
    return number, int(from_top[steps] - histogram[number])


def split(row: torch.Tensor, k: int, bits: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """bool masks over a row of scores [L]: above the threshold bin, and in it."""
    bins = coarse_bin(row, bits)
    threshold, _ = find_threshold(torch.bincount(bins, minlength=1 << bits), k)
    return bins > threshold, bins == threshold
