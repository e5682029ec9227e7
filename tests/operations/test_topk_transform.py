import numpy as np
import pytest
import torch
from common import refused, same_bits

from helpers.arrays import inputs
from helpers.arrays.memory import is_poison, poisoned
from helpers.arrays.topk_bins import coarse_bin, split
from helpers.kernel import compile_cuda, launch
from helpers.operations.leave_in_shared import left_in_shared
from helpers.operations.topk_transform import topk_transform
from helpers.proof.reference import topk_reference

GARBAGE = 11  # a plausible position: what an earlier row leaves behind


def select(scores, device, topk, seq_len=None, *, overflow="sentinel", **options):
    """Positions that the kernel chose for one row, into poisoned memory; slots are checked against them."""
    length = seq_len if seq_len is not None else scores.shape[1]
    table = inputs.page_table(1, -(-max(length, 1) // 64), seed=length)
    raw = poisoned((1, topk), torch.int32, device)
    out = poisoned((1, topk), torch.int32, device)
    lens = torch.tensor([length], dtype=torch.int32, device=device)
    topk_transform(scores.to(device), lens, table.to(device), topk, 64, overflow, raw_out=raw, out=out, **options)
    positions = raw[0].cpu().long()
    known = positions >= 0
    expected = torch.where(known, table[0].long()[positions.clamp(min=0) // 64] * 64 + positions % 64, -1)
    assert torch.equal(out[0].cpu().long(), expected)
    return positions


def assert_selection(row, positions, topk, max_ties):
    """Everything above the bin; of the bin, the largest (or, on overflow, any `max_ties` members); no duplicates."""
    above, in_bin = split(row, topk)
    chosen = positions[positions >= 0]
    assert len(chosen.unique()) == len(chosen)
    marked = torch.zeros(len(row), dtype=torch.bool)
    marked[chosen] = True
    assert bool((marked | ~above).all()), "a score above the threshold bin is missing"
    ties = chosen[in_bin[chosen]]
    assert int(above.sum()) + len(ties) == len(chosen)
    if int(in_bin.sum()) <= max_ties:
        best = row[in_bin].sort(descending=True).values[: topk - int(above.sum())]
        assert same_bits(row[ties].sort(descending=True).values + 0.0, best + 0.0)
    else:
        assert len(ties) == min(max_ties, topk - int(above.sum()))


@pytest.mark.parametrize("family", inputs.SCORE_FAMILIES)
@pytest.mark.parametrize("topk", (1, 100, 1024, 2048))
def test_selects_the_largest_of_every_family(backend, family, topk):
    row = inputs.scores(family, 1, 9000, seed=topk)
    positions = select(row, backend, topk, overflow="sentinel")
    above, in_bin = (int(mask.sum()) for mask in split(row[0], topk))
    missing = max(0, topk - above - 1024) if in_bin > 1024 else 0
    assert int((positions == -1).sum()) == missing
    assert_selection(row[0], positions, topk, 1024)


@pytest.mark.parametrize("in_bin", (20, 33, 60, 65, 128, 129, 700, 1024))
def test_every_branch_of_handle_tie(backend, in_bin):
    """10 wanted of `in_bin` ties: by ballot up to 32, 64, 128, by radix select above. The set has to be exact."""
    row = inputs.row_with(90, in_bin, 5000, seed=in_bin)
    assert set(select(row, backend, 100).tolist()) == set(topk_reference(row[0], 5000, 100).tolist())


def test_equal_scores_at_the_boundary_are_counted_once(backend):
    """300 exactly equal members compete for 10 slots."""
    row = torch.full((1, 4000), 0.25)
    row[0, ::10] = 1.0
    row[0, 5:95] = 2.0
    positions = select(row, backend, 100)
    assert len(positions.unique()) == 100
    assert sorted(row[0, positions].tolist(), reverse=True) == [2.0] * 90 + [1.0] * 10


@pytest.mark.parametrize("length", (0, 1, 63, 2047, 2048))
def test_short_rows_are_the_identity_then_minus_one(backend, length):
    positions = select(torch.randn(1, 2048), backend, 2048, seq_len=length, overflow="unwritten")
    assert positions.tolist() == list(range(length)) + [-1] * (2048 - length)


def test_only_the_first_seq_len_scores_count(backend):
    row = torch.cat([torch.rand(1, 3000), torch.full((1, 500), 1e9)], dim=1)
    positions = select(row, backend, 16, seq_len=3000)
    assert set(positions.tolist()) == set(topk_reference(row[0], 3000, 16).tolist())


def test_long_rows(backend, is_fast):
    length = 131072 if is_fast else 20000
    row = inputs.scores("randn", 1, length)
    assert set(select(row, backend, 2048).tolist()) == set(topk_reference(row[0], length, 2048).tolist())


@pytest.mark.parametrize("page_size", (1, 16, 64, 256))
def test_ragged_batches_strided_scores_and_page_sizes(backend, page_size):
    wide = inputs.scores("randn", 4, 3000).to(backend)
    scores = wide[:, 100:2900]
    lens = torch.tensor([2800, 40, 1500, 0], dtype=torch.int32, device=backend)
    for permuted in (False, True):
        table = inputs.page_table(4, -(-2800 // page_size), permuted=permuted).to(backend)
        out = topk_transform(scores, lens, table, 50, page_size, "sentinel")
        for b, length in enumerate(lens.tolist()):
            positions = topk_reference(scores[b], length, 50)
            slots = table[b].cpu().long()[positions // page_size] * page_size + positions % page_size
            assert set(out[b].tolist()) == set(slots.tolist()) | ({-1} if length < 50 else set())


def test_small_buffers_and_few_bins(backend):
    """The size of lesson 20: k = 16, a buffer of 4, 4 bins. Below 2.0 everything positive is one bin."""
    row = torch.linspace(0.1, 1.9, 40).unsqueeze(0)
    row[0, :5] = torch.arange(3.0, 8.0)
    positions = select(row, backend, 16, max_ties=4, bin_bits=2)
    assert int((positions == -1).sum()) == 16 - 5 - 4
    assert set(range(5)) < set(positions.tolist())


# ---- the bug, and its two fixes upstream --------------------------------------------------------------------------

OVERFLOWING = {
    "the field's row": (inputs.field_row(), 2048, 1024, 135),
    "100 winners and zeros": (inputs.winners_and_zeros(), 2048, 1024, 924),
    "3000 x +inf": (torch.cat([torch.full((1, 3000), torch.inf), torch.randn(1, 5000)], 1), 2048, 1024, 1024),
    "above 65504": (torch.cat([torch.linspace(7e4, 8e4, 3000)[None], torch.randn(1, 5000)], 1), 2048, 1024, 1024),
    "a cap of 4": (inputs.row_with(3, 20, 60), 16, 4, 9),
    "cap reached, none missing": (inputs.row_with(1024, 1536, 7613), 2048, 1024, 0),
}


@pytest.mark.alone_on_gpu
@pytest.mark.parametrize("case", OVERFLOWING)
def test_the_bug_unwritten_slots_hold_what_was_left_in_shared_memory(backend, case, monkeypatch):
    """Red if the bug stops showing: exactly k - G - cap slots hold what the kernel before left behind."""
    row, topk, cap, missing = OVERFLOWING[case]
    never = row.shape[1] - 1  # made the smallest score, so that a right selection can't hold its position
    row = row.clone()
    row[0, never] = -1e30
    # Between the two kernels nothing else may run: no loading of a kernel, no look at what the arguments hold.
    select(row, backend, topk, seq_len=1, overflow="unwritten", max_ties=cap)
    monkeypatch.setenv("KERNEL_CHECK", "0")
    with left_in_shared(torch.tensor([never], dtype=torch.int32), backend.type):
        positions = select(row, backend, topk, overflow="unwritten", max_ties=cap)
    assert int((positions == never).sum()) == missing
    assert_selection(row[0], positions[positions != never], topk, cap)


@pytest.mark.parametrize("case", OVERFLOWING)
def test_the_fix_writes_every_slot(backend, case):
    row, topk, cap, missing = OVERFLOWING[case]
    for filler in (GARBAGE, -7):
        with left_in_shared(torch.tensor([filler], dtype=torch.int32), backend.type):
            positions = select(row, backend, topk, overflow="sentinel", max_ties=cap)
        assert int((positions == -1).sum()) == missing
        assert_selection(row[0], positions, topk, cap)


@pytest.mark.parametrize("case", OVERFLOWING)
def test_the_later_fix_fills_with_the_slots_own_number(backend, case):
    row, topk, cap, missing = OVERFLOWING[case]
    above = int(split(row[0], topk)[0].sum())
    positions = select(row, backend, topk, overflow="position", max_ties=cap)
    if missing:
        assert positions[above + cap :].tolist() == list(range(above + cap, topk))
    assert_selection(row[0], positions[: topk - missing], topk, cap)


@pytest.mark.parametrize("above", (0, 500, 1000, 1023, 1024, 1500))
def test_how_many_are_missing(backend, above):
    """k - G - cap, and none once G reaches k - cap: the line that lesson 21 draws."""
    positions = select(inputs.row_with(above, 2100, 6000), backend, 2048)
    assert int((positions == -1).sum()) == max(0, 2048 - above - 1024)


def test_smaller_k_never_overflows(backend):
    for topk in (512, 1024):
        assert bool((select(inputs.winners_and_zeros(), backend, topk) >= 0).all())


def test_bad_input_says_what_is_wrong_and_writes_nothing(backend):
    scores = torch.randn(2, 300, device=backend)
    lens = torch.tensor([300, 200], dtype=torch.int32, device=backend)
    table = inputs.page_table(2, 5).to(backend)
    out = poisoned((2, 16), torch.int32, backend)
    cases = [
        ((scores.double(), lens, table), {}, TypeError, ("scores", "float64", "float32")),
        ((scores, lens.long(), table), {}, TypeError, ("seq_lens", "int64", "int32")),
        ((scores, lens[:1], table), {}, ValueError, ("seq_lens", "[1]", "[2]")),
        ((scores, lens, table.float()), {}, TypeError, ("page_table", "float32")),
        ((scores, lens - 204, table), {}, ValueError, ("seq_lens", "-4", "position 1")),
        ((scores, lens + 1, table), {}, ValueError, ("seq_lens", "301", "[0, 301)")),
        ((scores, lens, table[:, :4].contiguous()), {}, ValueError, ("page_table", "4 pages", "256", "300")),
        ((scores, lens, table), dict(topk=0), ValueError, ("topk", "0", "2048")),
        ((scores, lens, table), dict(topk=2049), ValueError, ("topk", "2049", "2048")),
        ((scores, lens, table), dict(topk=16.0), TypeError, ("topk", "16.0", "int")),
        ((scores, lens, table), dict(page_size=48), ValueError, ("page_size", "48", "power of two")),
        ((scores, lens, table - 2), {}, ValueError, ("page_table", "a page", "[0, ")),
        ((scores, lens, table + 2**25), {}, ValueError, ("page_table", str(2**31 // 64))),
        ((scores, lens, table), dict(raw_out=out), ValueError, ("out", "raw_out", "shares memory")),
        ((scores, lens, table), dict(out=table[:, :4], topk=4), ValueError, ("out",)),
        ((scores, lens, table), dict(overflow=["exact"]), TypeError, ("overflow", "a string")),
        ((scores, lens, table), dict(overflow="clip"), ValueError, ("overflow", "'clip'", "'sentinel'")),
        ((scores, lens, table), dict(max_ties=0), ValueError, ("max_ties", "0")),
        ((scores, lens, table), dict(raw_out=out[:1]), ValueError, ("raw_out", "[1, 16]", "[2, 16]")),
        ((scores.T.contiguous().T, lens, table), {}, ValueError, ("scores", "inner stride")),
    ]
    for arguments, options, error, words in cases:
        with refused(error, *words, untouched=(out,)):
            topk_transform(*arguments, **({"topk": 16, "out": out} | options))
    assert bool(is_poison(out).all())
    assert topk_transform(scores[:0], lens[:0], table[:0], 16).shape == (0, 16)


BINS = """
#include "topk_transform.cu"
extern "C" __global__ void bins(const float* scores, int* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = coarse_bin<12>(scores[i]);
}
"""


def test_the_model_has_the_kernels_bins(backend):
    """NaN of either sign and with any payload, infinities, ends of ranges, and a sweep over all exponents."""
    bits = [0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7F800000, 0x477FE000, 0x477FF000, 0x33000000, 1, 0]
    bits = torch.tensor([magnitude + sign for magnitude in bits for sign in (0, 2**31)])
    swept = torch.randint(-(2**31), 2**31, (4000,), generator=inputs.generator(0))
    scores = torch.cat([bits, swept]).to(torch.int32).view(torch.float32)
    out = torch.full((len(scores),), -1, dtype=torch.int32, device=backend)
    kernel = compile_cuda(BINS, ["bins"], device=backend.type).get_function("bins")
    launch(kernel, 1, 128, (scores.to(backend), out, np.int32(len(scores))))
    assert torch.equal(out.cpu().long(), coarse_bin(scores))
    assert set(coarse_bin(scores)[scores.isnan()].tolist()) == {4095}


@pytest.mark.parametrize("nan", (torch.nan, -torch.nan))
@pytest.mark.parametrize("overflow", ("sentinel", "position", "exact"))
def test_a_nan_is_the_largest_for_coarse_bins_and_the_last_for_the_exact_one(backend, overflow, nan):
    row = torch.tensor([[-1.0, nan, 2.0]])
    assert select(row, backend, 1, overflow=overflow).tolist() == [2 if overflow == "exact" else 1]
