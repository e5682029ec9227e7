"""Both attention kernels on huge, infinite and NaN values give what float64 gives, and NaN where it gives NaN."""

import math

import pytest
import torch
from common import any_example
from hypothesis import given, settings, strategies as st

from helpers.operations.sliding_window_attention import sliding_window_attention
from helpers.operations.sparse_attention import sparse_attention
from helpers.proof.hard_values import sparse_call, window_call, wrong_rows
from helpers.proof.reference import sliding_window_attention_reference

LIMITS = {torch.float32: 1e-6, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("call", (window_call, sparse_call))
def test_any_mix_of_values(backend, is_fast, call, dtype):
    @settings(any_example, max_examples=300 if is_fast else 60)
    @given(st.randoms(use_true_random=False))
    def check(draw):
        drawn = call(draw, backend, dtype)
        for how, actual in drawn.run.items():
            assert not wrong_rows(actual, drawn.expected[how], LIMITS[dtype]).any(), f"{how}: {drawn.what}"

    check()


def window_case(device, k63, window):
    """A request of 100 tokens, all of them ones, but for the last key of its first tile."""
    q, k, v, table = torch.ones(1, 1, 64), torch.ones(128, 1, 64), torch.ones(128, 1, 64), torch.tensor([[0, 1]])
    k[63] = k63
    return [t.to(device) for t in (q, k, v, table.int(), torch.tensor([100]).int())], window


@pytest.mark.parametrize("masking", ("multiply", "select"))
@pytest.mark.parametrize(("k63", "window"), ((-math.inf, 37), (-math.inf, 38), (-3e38, 37), (-3e38, 100)))
def test_a_first_tile_of_scores_that_are_minus_infinity(backend, masking, k63, window):
    """Its weights are 0, and those of the next tile are what they are: 1.0 everywhere."""
    arguments, window = window_case(backend, k63, window)
    out = sliding_window_attention(*arguments, window, 64, masking=masking)
    assert bool((out == 1.0).all())
    assert float((sliding_window_attention_reference(*arguments, window, 64) - 1).abs().max()) < 1e-12


def test_only_scores_that_are_minus_infinity_give_nan(backend):
    arguments, window = window_case(backend, 1.0, 37)
    arguments[1][:] = -math.inf
    assert bool(sliding_window_attention(*arguments, window, 64, masking="select").isnan().all())


@pytest.mark.parametrize("masking", ("multiply", "select"))
def test_a_value_that_is_attended_with_weight_0_is_not_masked(backend, masking):
    """Red if a score of -inf is taken for the mask: the position counts, and 0 * NaN is NaN."""
    arguments, window = window_case(backend, -math.inf, 37)
    arguments[2][63, 0, :3] = torch.tensor([math.nan, math.inf, 5.0])
    out = sliding_window_attention(*arguments, window, 64, masking=masking)
    assert out[0, 0].isnan().tolist() == [True, True] + [False] * 62


SPARSE = {  # what slot 2 holds, q -> what comes out of slots 1, 2 and 3
    "NaN": (math.nan, 1.0, math.nan),
    "NaN in q": (1.0, math.nan, math.nan),
    "+inf": (math.inf, 1.0, math.nan),
    "-inf: weight 0, and 0 * -inf": (-math.inf, 1.0, math.nan),
    "a product beyond fp32": (3e19, 3e19, 3e19),
    "the largest number": (3e38, 1.0, 3e38),
    "the smallest number": (-3e38, 1.0, 1.0),
}


@pytest.mark.parametrize("sentinel", ("check", "trust"))
@pytest.mark.parametrize("case", SPARSE)
def test_what_one_row_makes_of_the_output(backend, case, sentinel):
    row, q, expected = SPARSE[case]
    kv = torch.ones(4, 64)
    kv[2] = row
    arguments = torch.full((1, 1, 64), q), kv, torch.tensor([[1, 2, 3]]).int(), torch.tensor([3]).int()
    out = sparse_attention(*(t.to(backend) for t in arguments), sentinel=sentinel)
    assert torch.allclose(out.cpu(), torch.full((1, 1, 64), expected), rtol=1e-6, equal_nan=True)


def test_a_skipped_nan_does_not_matter(backend):
    kv = torch.ones(4, 64)
    kv[2] = math.nan
    for indices, expected in (([1, -1, 3], 1.0), ([-1, 4, -1], 0.0)):
        arguments = torch.ones(1, 1, 64), kv, torch.tensor([indices]).int(), torch.tensor([3]).int()
        assert bool((sparse_attention(*(t.to(backend) for t in arguments)) == expected).all())
