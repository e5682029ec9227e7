import pytest
import torch
from common import refused

from helpers.arrays.inputs import page_table as make_page_table
from helpers.operations.sliding_window_attention import TILE, sliding_window_attention
from helpers.proof.reference import relative_error, sliding_window_attention_reference

# One ulp of the output dtype at most, against a float64 reference.
LIMITS = {torch.float32: 2e-6, torch.bfloat16: 4e-3}


def batch_of(seq_lens, page_size, heads=4, kv_heads=2, dim=64, dtype=torch.float32, device="cpu", seed=0):
    """A batch whose page table ends in padding (page 0), as a server's does."""
    g = torch.Generator().manual_seed(seed)
    used = [-(-n // page_size) for n in seq_lens]
    pages = max(used) + 2
    table = make_page_table(len(seq_lens), pages, seed=seed)
    for row, count in zip(table, used, strict=True):
        row[count:] = 0
    slots = (len(seq_lens) * pages + 1) * page_size
    k, v = (torch.randn(slots, kv_heads, dim, generator=g).to(dtype) for _ in range(2))
    q = torch.randn(len(seq_lens), heads, dim, generator=g).to(dtype)
    return [t.to(device) for t in (q, k, v, table, torch.tensor(seq_lens, dtype=torch.int32))]


@pytest.mark.parametrize("masking", ("multiply", "select"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("dim", (64, 128))
@pytest.mark.parametrize("page_size", (1, 7, 16, 64))
def test_matches_the_reference(backend, page_size, dim, dtype, masking):
    batch = batch_of([1, 63, 64, 65, 130, 200], page_size, dim=dim, dtype=dtype, device=backend)
    for window in (1, 64, 100, 4096):
        out = sliding_window_attention(*batch, window, page_size, masking=masking)
        expected = sliding_window_attention_reference(*batch, window, page_size)
        assert relative_error(out, expected) < LIMITS[dtype]


@pytest.mark.parametrize(("heads", "kv_heads"), ((1, 1), (8, 1), (6, 3)))
def test_query_heads_share_kv_heads_in_groups(backend, heads, kv_heads):
    batch = batch_of([70, 5], 16, heads=heads, kv_heads=kv_heads, device=backend)
    out = sliding_window_attention(*batch, 48, 16)
    assert relative_error(out, sliding_window_attention_reference(*batch, 48, 16)) < LIMITS[torch.float32]


def reaches_page_0(seq_len, page_size):
    """Whether the last tile goes on, behind the request's last page, into the page table's padding."""
    return -(-seq_len // page_size) * page_size < -(-seq_len // TILE) * TILE


@pytest.mark.parametrize("page_size", (1, 16, 32, 64))
def test_the_bug_nan_in_the_reserved_slot_reaches_just_the_requests_whose_tile_loads_it(backend, page_size):
    """Red if multiplying stops leaking, if it leaks elsewhere, or if selecting starts to."""
    seq_lens = [16, 48, 60, 64, 100, 128, 177]
    batch = batch_of(seq_lens, page_size, device=backend)
    expected = sliding_window_attention_reference(*batch, 64, page_size)
    for cache in batch[1:3]:
        cache[0] = torch.nan
    multiplied = sliding_window_attention(*batch, 64, page_size, masking="multiply")
    poisoned = [reaches_page_0(n, page_size) for n in seq_lens]
    assert multiplied.isnan().all(dim=(1, 2)).tolist() == poisoned
    assert multiplied.isnan().any(dim=(1, 2)).tolist() == poisoned
    selected = sliding_window_attention(*batch, 64, page_size, masking="select")
    assert relative_error(selected, expected) < LIMITS[torch.float32]


def test_a_nan_in_k_alone_does_not_leak(backend):
    """Scores are masked by selection, so only V's NaN travels through 0 * NaN."""
    batch = batch_of([40], 16, device=backend)
    batch[1][0] = torch.nan
    assert not sliding_window_attention(*batch, 64, 16, masking="multiply").isnan().any()


def test_a_request_of_length_0_is_nan(backend):
    """0 / 0: the first NaN of the story. Its neighbours are unharmed."""
    out = sliding_window_attention(*batch_of([0, 20], 16, device=backend), 64, 16)
    assert out.isnan().all(dim=(1, 2)).tolist() == [True, False]
    assert out.isnan().any(dim=(1, 2)).tolist() == [True, False]


def test_bad_input_says_what_is_wrong(backend):
    q, k, v, table, lens = batch_of([20, 30], 16, device=backend)
    cases = [
        ((q.double(), k, v, table, lens, 64, 16), TypeError, ("q", "float64")),
        ((q, k, v[:, :1], table, lens, 64, 16), ValueError, ("v_cache",)),
        ((q[:, :3].contiguous(), k, v, table, lens, 64, 16), ValueError, ("3 heads", "2")),
        ((q, k, v, table.long(), lens, 64, 16), TypeError, ("page_table", "int64", "int32")),
        ((q, k, v, table, lens - 31, 64, 16), ValueError, ("seq_lens", "-11", "position 0")),
        ((q, k, v, table[:, :1].contiguous(), lens, 64, 16), ValueError, ("page_table", "1 pages", "30")),
        ((q, k, v, table + 1000, lens, 64, 16), ValueError, ("page_table", "a page")),
        ((q, k, v, table, lens, 0, 16), ValueError, ("window", "0")),
        ((q, k, v, table, lens, 64, 65), ValueError, ("page_size", "65")),
        ((q, k, v, table, lens, 64, 16, "add"), ValueError, ("masking", "'add'", "'multiply' or 'select'")),
        ((q[..., :32].contiguous(), k, v, table, lens, 64, 16), ValueError, ("32", "64 or 128")),
    ]
    for arguments, error, words in cases:
        with refused(error, *words):
            sliding_window_attention(*arguments)
    assert sliding_window_attention(q[:0], k, v, table[:0], lens[:0], 64, 16).shape == (0, 4, 64)
