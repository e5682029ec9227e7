"""Checkers of the exercises in lessons 20 to 24. How a checker works: checks.py.

Those that compile a reader's CUDA run it on the CPU build's checked mode, on any machine: a write past the end is
named instead of ending the notebook, and a loop without an end is stopped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import torch

from helpers import cpu
from helpers.arrays import inputs, memory
from helpers.arrays.topk_bins import find_threshold, split
from helpers.kernel import KERNELS, compile_cuda, launch
from helpers.operations.leave_in_shared import left_in_shared
from helpers.operations.topk_transform import THREADS, topk_transform

from .checks import NotYet, checker, equal, require

PADDING = "for (int i = num_ties + threadIdx.x; i < wanted; i += blockDim.x) out[i] = kNoToken;"
PAGE_SIZE = 64


def with_padding(loop: str) -> str:
    """The text of kernels/topk_transform.cu with `loop` in the place of the Sentinel variant's padding loop."""
    source = (KERNELS / "topk_transform.cu").read_text()
    if source.count(PADDING) != 1:
        raise ValueError("kernels/topk_transform.cu no longer has the padding loop that lesson 22 takes out")
    return source.replace(PADDING, "{\n" + loop + "\n}")


def _run(source, scores, k, cap):
    """Positions int64 [k] that a kernel text selects from one row, and the position that unwritten slots hold."""
    never = scores.shape[1]  # one more score, the smallest by far: no right selection has it
    scores = torch.cat([scores, torch.full((1, 1), -1e30)], dim=1)
    name = f"topk_transform<Overflow::Sentinel, {cap}, 12>"
    pages = -(-scores.shape[1] // PAGE_SIZE)
    raw, out = memory.poisoned((2, 1, k), torch.int32)
    lens = torch.tensor([scores.shape[1]], dtype=torch.int32)
    scalars = np.int64(scores.stride(0)), np.int32(pages), np.int32(k), np.int32(PAGE_SIZE.bit_length() - 1)
    with cpu.mode("checked"):
        function = compile_cuda(source, [name], device="cpu").get_function(name)
        with left_in_shared(torch.tensor([never], dtype=torch.int32), "cpu"):
            launch(function, (1,), (THREADS,), (scores, lens, inputs.page_table(1, pages), out, raw, *scalars))
    return raw[0].long(), never


# ---------------------------------------------------------------- lesson 20


@checker
def threshold_bin(answer: Callable[[torch.Tensor, int], tuple[int, int]]) -> str:
    """20: answer(histogram [bins], k) -> (bin, above), counted from the top."""
    cases = [([5, 13, 15, 7], 16), ([5, 13, 15, 7], 7), ([5, 13, 15, 7], 8), ([5, 13, 15, 7], 40)]
    cases += [([0, 9, 0, 0, 4, 0], 4), ([0, 9, 0, 0, 4, 0], 5), ([3, 0, 1], 1), ([8], 3)]
    random = torch.randint(0, 30, (4096,), generator=inputs.generator(20)).tolist()
    for counts, k in [*cases, (random, 2048), (random, 1)]:
        histogram = torch.tensor(counts)
        shown = counts if len(counts) < 10 else f"{len(counts)} bins"
        got = answer(histogram, k)
        require(got is not None and got is not ..., "nothing is returned yet")
        require(isinstance(got, tuple | list) and len(got) == 2, f"expected (bin, above), got {got!r}")
        what = f"(bin, above) for {shown}, k = {k}"
        try:
            got = tuple(operator.index(n) for n in got)
        except TypeError:
            raise NotYet(f"{what}: two integers are wanted, got {got!r}") from None
        equal(got, find_threshold(histogram, k), what)
    return "counted from the top, k is reached in that bin and not before"


@checker
def crowded_bin(answer: Callable[[], torch.Tensor]) -> str:
    """20: answer() -> fp32 [L], all different, with more than 1024 in the threshold bin and too few above it."""
    row = answer()
    require(row is not None and row is not ..., "nothing is returned yet")
    require(isinstance(row, torch.Tensor), f"expected a tensor, got {type(row).__name__}")
    require(row.dtype == torch.float32 and row.ndim == 1, f"expected fp32 [L], got {row.dtype} {list(row.shape)}")
    require(len(row) > 2048, f"{len(row)} scores leave nothing to choose: 2048 are wanted")
    different = len(row.unique())
    require(bool(row.isfinite().all()) and different == len(row), f"only {different} of {len(row)} scores differ")
    above, in_bin = (int(mask.sum()) for mask in split(row.cpu(), 2048))
    require(in_bin > 1024, f"the threshold bin has {in_bin} members, and the buffer holds 1024")
    require(above < 1024, f"{above} scores lie above the bin, so the {2048 - above} wanted from it fit the buffer")
    row = row.cpu().unsqueeze(0)
    missing = int((_select(row) == -1).sum())
    return f"no two scores are equal, {in_bin} share a bin, and {missing} slots stay empty"


# ---------------------------------------------------------------- lesson 21


def _select(scores):
    """Slots int32 [1, 2048] that the fixed kernel gives for one row; -1 in those it would have left unwritten."""
    lens = torch.tensor([scores.shape[1]], dtype=torch.int32)
    table = inputs.page_table(1, -(-scores.shape[1] // PAGE_SIZE))
    return topk_transform(scores.contiguous(), lens, table, overflow="sentinel")


@checker
def row_with_missing(answer: Callable[[int], torch.Tensor]) -> str:
    """21: answer(missing) -> fp32 [1, L] scores of which exactly `missing` of the 2048 slots stay unwritten."""
    for missing in (500, 1, 135, 1024):
        row = answer(missing)
        require(row is not None and row is not ..., "nothing is returned yet")
        require(isinstance(row, torch.Tensor), f"expected a tensor of scores, got {type(row).__name__}")
        require(row.dtype == torch.float32 and row.ndim == 2 and len(row) == 1,
                f"expected fp32 [1, L], got {row.dtype} {list(row.shape)}")  # fmt: skip
        row = row.cpu()
        require(row.shape[1] > 2048, f"a row of {row.shape[1]} scores is no longer than k, so nothing is selected")
        above, in_bin = (int(mask.sum()) for mask in split(row[0], 2048))
        found = int((_select(row) == -1).sum())
        require(found == missing, f"asked for {missing}: {above} above, {in_bin} in the bin, {found} unwritten")
    return "1, 135, 500 and 1024 unwritten slots, each on request"


@checker
def valid_selection(answer: Callable[[torch.Tensor, int], bool]) -> str:
    """21: answer(positions int32 [n], seq_len) -> whether all are positions of the row and no two are equal."""
    for seq_len, n in ((3000, 2048), (2500, 2048), (70000, 2048), (900, 512)):
        for what, positions, right in _selections(seq_len, n):
            got = answer(positions.clone(), seq_len)
            require(got is not None and got is not ..., "nothing is returned yet")
            equal(bool(got), right, f"{what} ({n} of {seq_len})")
    return "it lets right selections pass and refuses all seven kinds of wrong ones"


def _selections(seq_len, n):
    """(what, positions int32 [n], whether they are n different ones of a row of seq_len)."""
    last = seq_len - 1
    good = torch.randperm(seq_len, generator=inputs.generator(21))[:n].int()
    with_ends = torch.cat([torch.tensor([0, last], dtype=torch.int32), good[(good != 0) & (good != last)][: n - 2]])
    cases = [("a right selection", good, True), ("one with the first and the last position", with_ends, True)]

    def spoiled(what: str, place: int, value: int) -> None:
        wrong = with_ends.clone()
        wrong[place] = value
        cases.append((what, wrong, False))

    spoiled("position 0 twice", n - 1, 0)
    spoiled("one position twice, far apart", n - 1, int(with_ends[5]))
    spoiled("a position just past the end", 7, seq_len)
    spoiled("a position of a longer row", 100, seq_len + 14000)
    spoiled("a float's bits", n // 2, 1065353216)
    spoiled("a float's bits, negative", n // 2, -875836469)
    chosen = set(with_ends.tolist())
    unused = next(p for p in range(seq_len) if p not in chosen)
    spoiled(f"position {-unused}", n // 2, -unused)
    return cases


# ---------------------------------------------------------------- lesson 22

_CASES = {  # name: (above, in_bin, length, k); with a buffer of 4
    "9 slots to pad": (3, 20, 60, 16),
    "1 slot to pad": (11, 20, 60, 16),
    "nothing to pad": (12, 20, 60, 16),
    "more ties than slots": (14, 20, 60, 16),
    "1944 slots to pad": (100, 3000, 4000, 2048),
}


@checker
def padding_loop(answer: str) -> str:
    """22: answer = CUDA text that pads out[num_ties .. wanted-1] with kNoToken, at its place in handle_tie."""
    require(isinstance(answer, str), f"expected the text of a loop, got {type(answer).__name__}")
    source = with_padding(answer)
    for case, (above, in_bin, length, k) in _CASES.items():
        positions, never = _run(source, inputs.row_with(above, in_bin, length), k, 4)
        missing = max(0, k - above - 4)
        unwritten = int((positions == never).sum())
        require(not unwritten, f"{case}: {unwritten} slots still hold what was there before")
        padded = int((positions == -1).sum())
        require(padded == missing, f"{case}: {padded} slots say -1, expected {missing}")
        chosen = positions[positions >= 0]
        require(len(chosen.unique()) == k - missing, f"{case}: a token was lost or doubled")
    return "every slot is written, and no tie is overwritten"


@checker
def one_slot_too_few(answer: str) -> str:
    """22: answer = the kernel's text, broken: a row that needs padding keeps exactly one unwritten slot."""
    require(isinstance(answer, str), f"expected the text of the kernel, got {type(answer).__name__}")
    for above, in_bin, expected in ((889, 1536, 1), (1500, 1536, 0)):
        positions, never = _run(answer, inputs.row_with(above, in_bin, 4000), 2048, 1024)
        unwritten = int((positions == never).sum())
        missing = max(0, 2048 - above - 1024)
        what = f"{above} scores above the bin, {missing} slots to pad"
        require(unwritten == expected, f"{what}: {unwritten} stay unwritten, expected {expected}")
        padded = int((positions == -1).sum())
        require(padded == missing - expected, f"{what}: {padded} slots say -1, expected {missing - expected}")
    return "one slot of 2048 stays unwritten, and the check finds it"
