"""Input families. Each is deterministic for a given seed and says which property it is there for."""

import math

import torch

NO_BIN_MATE = 0.25  # a score that shares no 12-bit bin with the scores around 1.0


def generator(seed: int) -> torch.Generator:
    """A generator of torch's on the CPU with this seed."""
    return torch.Generator().manual_seed(seed)


def _randn(n, g):
    return torch.randn(n, generator=g)


def _relu_plateau(n, g):
    """A small DSA indexer: sum over 4 heads of weight x ReLU(q . k). Where no head fires, the score is exactly 0."""
    q = torch.randn(4, 16, generator=g)
    k = torch.randn(n, 16, generator=g) - 0.5 * q.sum(dim=0)
    weight = torch.rand(4, generator=g)
    return (k @ q.T).relu() @ weight


def _one_fp16_bin(n, g):
    return 1 + torch.rand(n, generator=g) / 128


def _above_65504(n, g):
    return 70000 + 10000 * torch.rand(n, generator=g)


def _many_minus_inf(n, g):
    scores = torch.randn(n, generator=g)
    scores[torch.rand(n, generator=g) < 0.9] = -math.inf
    return scores


def _plus_inf(n, g):
    scores = torch.randn(n, generator=g)
    scores[torch.rand(n, generator=g) < 0.4] = math.inf
    return scores


def _nan(n, g):
    scores = torch.randn(n, generator=g)
    scores[torch.rand(n, generator=g) < 0.1] = math.nan
    return scores


def _eight_values(n, g):
    return torch.randint(0, 8, (n,), generator=g).float()


def _ascending(n, g):
    return torch.arange(n, dtype=torch.float32) / 16


def _bf16_rounded(n, g):
    return torch.randn(n, generator=g).bfloat16().float()


SCORE_FAMILIES = {
    "randn": _randn,
    "ReLU plateau": _relu_plateau,
    "one fp16 bin": _one_fp16_bin,
    "above 65504": _above_65504,
    "many -inf": _many_minus_inf,
    "+inf": _plus_inf,
    "NaN": _nan,
    "8 values": _eight_values,
    "ascending": _ascending,
    "bf16-rounded": _bf16_rounded,
}


def scores(family: str, batch: int, length: int, seed: int = 0) -> torch.Tensor:
    """fp32 [batch, length] of one of SCORE_FAMILIES."""
    g = generator(seed)
    return torch.stack([SCORE_FAMILIES[family](length, g) for _ in range(batch)])


def row_with(above: int, in_bin: int, length: int, seed: int = 0) -> torch.Tensor:
    """fp32 [1, length]: `above` scores above the threshold bin, `in_bin` members of it (all different), the rest below.

    The bin is the one that starts at 1.0 (12 bits of fp16: 1.0 to 1.0156). Positions are shuffled.
    """
    if above + in_bin > length:
        raise ValueError(f"above is {above} and in_bin {in_bin}; their sum should be at most length, which is {length}")
    g = generator(seed)
    values = torch.full((length,), NO_BIN_MATE)
    values[:above] = 2 + torch.rand(above, generator=g)
    values[above : above + in_bin] = 1 + torch.linspace(0, 1 / 70, in_bin)
    values[above + in_bin :] *= torch.rand(length - above - in_bin, generator=g)
    return values[torch.randperm(length, generator=g)].unsqueeze(0)


def field_row(seed: int = 0) -> torch.Tensor:
    """The shape seen in the field: 889 scores above the threshold bin, 1536 in it, 7613 in all."""
    return row_with(889, 1536, 7613, seed)


def winners_and_zeros(seed: int = 0) -> torch.Tensor:
    """100 winners and 8220 exact zeros: what an indexer with ReLU makes of text it has no interest in."""
    g = generator(seed)
    values = torch.zeros(8320)
    values[torch.randperm(8320, generator=g)[:100]] = 1 + torch.rand(100, generator=g)
    return values.unsqueeze(0)


def page_table(batch: int, pages: int, permuted: bool = True, first_page: int = 1, seed: int = 0) -> torch.Tensor:
    """int32 [batch, pages]: every request's pages, all different, starting at `first_page` (page 0 is reserved)."""
    count = batch * pages
    order = torch.randperm(count, generator=generator(seed)) if permuted else torch.arange(count)
    return (order + first_page).int().view(batch, pages)
