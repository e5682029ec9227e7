"""The random sweep: its references agree with the plain ones, and it counts kernels that are wrong."""

import functools

import pytest
import torch

from helpers import sweep
from helpers.arrays import inputs
from helpers.kernel import KERNELS
from helpers.proof import hard_values
from helpers.proof.reference import slots_of, topk_reference


@pytest.mark.parametrize("family", sweep.FAMILIES)
def test_the_reference_of_the_sweep_is_the_plain_one(family, device):
    for length, topk in ((1, 1), (7, 20), (300, 100), (3000, 2048)):
        rows = [sweep.FAMILIES[family](length, inputs.generator(seed)) for seed in range(4)]
        lens = torch.tensor([length, length // 2, 0, -4])
        table = inputs.page_table(4, -(-length // 16), seed=length)
        found = sweep.exact_positions(torch.stack(rows).to(device), lens.to(device), topk)
        slots = slots_of(table.to(device), found, 16)
        for b, row in enumerate(rows):
            expected = topk_reference(row, max(0, int(lens[b])), topk).sort().values
            behind = torch.full((topk - len(expected),), -1)
            assert torch.equal(found[b].cpu(), torch.cat([expected, behind]))
            assert torch.equal(slots[b].cpu(), torch.cat([slots_of(table[b], expected, 16), behind]))


def test_both_kernels_are_right_in_every_repeat(capsys):
    assert sweep.main(["--rows", "80", "--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "exact_topk" in said and "store_cache" in said and "first:" not in said


def sums(tallies):
    return [sum(getattr(tally, part) for tally in tallies.values()) for part in ("rows", "wrong", "changed")]


@pytest.mark.parametrize("overflow", ("sentinel", "position"))
def test_it_counts_rows_of_a_kernel_that_is_not_exact(overflow, device, monkeypatch, capsys):
    exact = sweep.topk_transform

    def one_wrong_row(scores, lens, *rest, out, raw_out):
        exact(scores, lens, *rest, out=out, raw_out=raw_out)
        exact(scores[:1], lens[:1], rest[0][:1], *rest[1:], overflow=overflow, out=out[:1], raw_out=raw_out[:1])

    monkeypatch.setattr(sweep, "topk_transform", one_wrong_row)
    tallies = sweep.sweep_exact_topk(device, 40)
    rows, wrong, _ = sums(tallies)
    assert 40 <= rows and 0 < wrong < rows
    assert not sweep.report("exact_topk", tallies)
    assert "first: batch" in capsys.readouterr().out


def test_it_counts_a_single_wrong_slot_and_a_repeat_that_differs(device, monkeypatch):
    exact, calls = sweep.topk_transform, []

    def now_and_then(*arguments, out, raw_out):
        exact(*arguments, out=out, raw_out=raw_out)
        calls.append(out)
        if len(calls) == 2:
            raw_out[-1, -1] += 1

    monkeypatch.setattr(sweep, "topk_transform", now_and_then)
    assert sums(sweep.sweep_exact_topk(device, 1))[1:] == [0, 1]


STORES = {
    "no skip": lambda store, *a, reserved_skip_index, **rest: store(*a, **rest, reserved_skip_index=-1),
    "always skips 0": lambda store, *a, reserved_skip_index, **rest: store(*a, **rest),
    "one row short": lambda store, k, v, *a, **rest: store(k[1:], v[1:], *a[:-1], a[-1][1:], **rest),
    "one slot too far": lambda store, *a, **rest: store(*a[:-1], (a[-1] + 1) % len(a[2]), **rest),
}


@pytest.mark.parametrize("mistake", STORES)
def test_it_counts_rows_of_a_wrong_store(mistake, device, monkeypatch):
    monkeypatch.setattr(sweep, "store_cache", functools.partial(STORES[mistake], sweep.store_cache))
    rows, wrong, _ = sums(sweep.sweep_store_cache(device, 200))
    assert rows >= 200 and 0 < wrong


def test_it_counts_a_write_to_a_slot_that_nobody_aims_at(device, monkeypatch):
    right = sweep.store_cache

    def one_byte_more(k, v, k_cache, v_cache, indices, **rest):
        right(k, v, k_cache, v_cache, indices, **rest)
        spare = next(slot for slot in range(len(v_cache)) if slot not in indices.tolist())
        v_cache.view(torch.uint8)[spare, -1] = 0

    monkeypatch.setattr(sweep, "store_cache", one_byte_more)
    assert sums(sweep.sweep_store_cache(device, 1))[1] > 0


ATTENTION = {
    "sliding_window_attention": sweep.sweep_sliding_window_attention,
    "sparse_attention": sweep.sweep_sparse_attention,
}
MISTAKES = {
    "hides NaN": torch.nan_to_num,
    "a little off": lambda out: out + 0.02 * out.abs().nan_to_num().amax(dim=2, keepdim=True),
    "heads swapped": lambda out: out.flip(1),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", ATTENTION)
def test_it_counts_wrong_attention(name, mistake, device, monkeypatch):
    run = ATTENTION[name]
    rows, wrong, _ = sums(run(device, 200))
    assert rows >= 40 and wrong == 0
    right = getattr(hard_values, name)
    monkeypatch.setattr(hard_values, name, lambda *a, **kw: MISTAKES[mistake](right(*a, **kw)))
    assert sums(run(device, 200))[1] > 0


def test_every_kernel_that_computes_is_swept():
    """The coarse selections are held against their bins in tests of their own; leave_in_shared computes nothing."""
    assert set(sweep.KERNELS) == {path.stem for path in KERNELS.glob("*.cu")} - {"topk_transform", "leave_in_shared"}
