"""The checkers of lessons 20 to 22 let the solutions pass and refuse known wrong answers, each for its own reason."""

import pytest
import torch
from answers import accept_and_refuse, named

from helpers.arrays import inputs
from helpers.arrays.topk_bins import bin_start, coarse_bin, find_threshold, split
from helpers.exercises import topk as exercises
from helpers.kernel import KERNELS

SOURCE = (KERNELS / "topk_transform.cu").read_text()


# ---- the bins in torch, which checkers and figures rest on


def test_bins_keep_the_order_of_the_scores():
    scores = torch.cat([inputs.scores("randn", 1, 5000)[0], torch.tensor([-1e30, -torch.inf, torch.inf, 1e30, 0.0])])
    ordered = scores.sort().values
    for bits in (2, 7, 12):
        bins = coarse_bin(ordered, bits)
        assert bool((bins.diff() >= 0).all()) and 0 <= int(bins.min()) and int(bins.max()) < 1 << bits


def test_a_bin_starts_where_it_says():
    for number in (100, 2000, 2048, 3008, 3009):
        start = torch.tensor([bin_start(number)])
        assert int(coarse_bin(start)) == number
        below = torch.nextafter(start.half(), torch.tensor([-torch.inf]).half())
        assert int(coarse_bin(below.float())) == number - 1
    assert bin_start(3008) == 1.0 and bin_start(3009) == 1 + 1 / 64


@pytest.mark.parametrize(
    ("counts", "k", "expected"), [([5, 13, 15, 7], 16, (2, 7)), ([4, 0, 0], 1, (0, 0)), ([1, 2], 2, (1, 0))]
)
def test_threshold(counts, k, expected):
    assert find_threshold(torch.tensor(counts), k) == expected


def test_split_finds_the_field_row():
    above, in_bin = split(inputs.field_row()[0], 2048)
    assert (int(above.sum()), int(in_bin.sum())) == (889, 1536)


# ---- the answers


def solved_threshold(histogram, k, stop=lambda count, k: count >= k):
    count = 0
    for number in range(len(histogram) - 1, -1, -1):
        count += int(histogram[number])
        if stop(count, k):
            return number, count - int(histogram[number])


def solved_row(missing, extra=0, in_bin=2100):
    return inputs.row_with(1024 - missing + extra, in_bin, 5000)


def solved_validity(positions, seq_len):
    inside = (positions >= 0) & (positions < seq_len)
    return bool(inside.all()) and len(positions.unique()) == len(positions)


PLACES = [("i < wanted", "i < wanted - 1"), ("i = num_ties + threadIdx.x", "i = num_ties + 1 + threadIdx.x")]
RIGHT = {
    "threshold_bin": [
        solved_threshold,
        find_threshold,
        lambda histogram, k: torch.tensor(find_threshold(histogram, k)).unbind(),
    ],
    "crowded_bin": [lambda: 1 + torch.arange(4000) / 2**20, lambda: 70000 + torch.arange(3000.0)],
    "row_with_missing": [solved_row],
    "valid_selection": [solved_validity],
    "padding_loop": [exercises.PADDING],
    "one_slot_too_few": [exercises.with_padding(exercises.PADDING.replace(*place)) for place in PLACES],
}
WRONG = {
    "threshold_bin": named(
        ...,
        lambda histogram, k: ...,
        lambda histogram, k: (0, 0),
        lambda histogram, k: find_threshold(histogram, k)[0],
        lambda histogram, k: (find_threshold(histogram, k)[0], 0),
        lambda histogram, k: solved_threshold(histogram, k, stop=lambda count, k: count > k),
        lambda histogram, k: solved_threshold(histogram.flip(0), k),
        lambda histogram, k: (find_threshold(histogram, k)[0], int(histogram[find_threshold(histogram, k)[0] :].sum())),
        lambda histogram, k: (find_threshold(histogram, k)[0] + 0.9, find_threshold(histogram, k)[1] + 0.5),
        lambda histogram, k: tuple(float(n) for n in find_threshold(histogram, k)),
        lambda histogram, k: (len(histogram) - 1 - find_threshold(histogram, k)[0], find_threshold(histogram, k)[1]),
    ),
    "crowded_bin": named(
        (lambda: ..., "nothing is returned yet"),
        (lambda: torch.ones(4000), "only 1 of 4000"),
        (lambda: torch.randn(4000, generator=inputs.generator(0)), "threshold bin has"),
        (lambda: 1 + torch.arange(2000) / 2**20, "nothing to choose"),
        (lambda: (1 + torch.arange(4000) / 2**20).unsqueeze(0), "expected fp32 [L]"),
        (lambda: (1 + torch.arange(4000) / 2**20).double(), "expected fp32 [L]"),
        (lambda: 1 + torch.arange(4000) / 2**30, "of 4000 scores differ"),
        (lambda: torch.cat([2 + torch.arange(1500) / 1e3, 1 + torch.arange(3000) / 2**20]), "fit the buffer"),
    ),
    "row_with_missing": named(
        (lambda missing: ..., "nothing is returned yet"),
        (lambda missing: solved_row(500), "asked for 1:"),
        (lambda missing: solved_row(missing, extra=1), "499 unwritten"),
        (lambda missing: solved_row(missing, in_bin=1025), "0 unwritten"),  # the threshold moves to a lower bin
        (lambda missing: inputs.row_with(missing, 2100, 5000), "524 unwritten"),
        (lambda missing: inputs.field_row(), "135 unwritten"),
        (lambda missing: solved_row(missing)[0], "expected fp32 [1, L]"),
        (lambda missing: torch.rand(1, 2048), "nothing is selected"),
    ),
    "valid_selection": named(
        ...,
        lambda positions, seq_len: ...,
        lambda positions, seq_len: True,
        lambda positions, seq_len: False,
        lambda positions, seq_len: len(positions.unique()) == len(positions),
        lambda positions, seq_len: bool(((positions >= 0) & (positions < seq_len)).all()),
        lambda positions, seq_len: solved_validity(positions, seq_len + 1),
        lambda positions, seq_len: solved_validity(positions, 3000),
        lambda positions, seq_len: solved_validity(positions, seq_len) and len(positions) == 2048,
        lambda positions, seq_len: solved_validity(positions - 1, seq_len),
        lambda positions, seq_len: solved_validity(positions.abs(), seq_len),
        lambda positions, seq_len: (
            solved_validity(positions, seq_len) and not bool((positions.diff() == 0).any()) and 0 not in positions
        ),
    ),
    "padding_loop": named(
        (..., "replace the ..."),
        ("", "9 slots to pad: 9 slots still hold"),
        ("out[num_ties] = kNoToken;", "9 slots to pad: 8 slots still hold"),
        ("for (int i = threadIdx.x; i < wanted; i += blockDim.x) out[i] = kNoToken;", "9 slots to pad:"),
        (exercises.PADDING.replace("i < wanted", "i < wanted - 1"), "1 slots still hold"),
        (exercises.PADDING.replace("i < wanted", "i <= wanted"), "KernelFault"),
        (exercises.PADDING.replace("for", "if").replace("int i = num_ties + threadIdx.x; ", ""), "CompileError"),
        ("const int i = num_ties + threadIdx.x; if (i < wanted) out[i] = kNoToken;", "1944 slots to pad"),
    ),
    "one_slot_too_few": named(
        (..., "replace the ..."),
        (SOURCE, "0 stay unwritten, expected 1"),
        (exercises.with_padding(""), "135 stay unwritten, expected 1"),
        (exercises.with_padding(exercises.PADDING.replace("i < wanted", "i < wanted - 2")), "2 stay unwritten"),
        (SOURCE.replace("out[i] = first_slot + i", "out[i] = 0"), "0 stay unwritten, expected 1"),
        ("not a kernel\n", "CompileError"),
    ),
}

test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises, RIGHT, WRONG)
