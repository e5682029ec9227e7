import pytest
import torch
from common import refused

from helpers.arrays.memory import poisoned
from helpers.operations.sparse_attention import sparse_attention
from helpers.proof.reference import relative_error, sparse_attention_reference

LIMITS = {torch.float32: 2e-6, torch.bfloat16: 4e-3}


def batch_of(batch=3, heads=2, dim=96, slots=300, topk=64, dtype=torch.float32, device="cpu"):
    g = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, dim, generator=g).to(dtype)
    kv = torch.randn(slots, dim, generator=g).to(dtype)
    indices = torch.stack([torch.randperm(slots, generator=g)[:topk] for _ in range(batch)]).int()
    lens = torch.tensor([1000, topk, 17][:batch], dtype=torch.int32)
    return [t.to(device) for t in (q, kv, indices, lens)]


@pytest.mark.parametrize("sentinel", ("trust", "check"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize(("dim", "topk", "slots"), ((64, 16, 20), (512, 100, 300), (576, 2048, 2100)))
def test_matches_the_reference(backend, dim, topk, slots, dtype, sentinel):
    batch = batch_of(dim=dim, topk=topk, slots=slots, dtype=dtype, device=backend)
    out = sparse_attention(*batch, sentinel=sentinel)
    assert relative_error(out, sparse_attention_reference(*batch)) < LIMITS[dtype]


def test_check_skips_entries_that_name_no_slot(backend):
    """Also where they are many: what is left has to be weighted as if the others did not exist."""
    q, kv, indices, lens = batch_of(device=backend)
    indices[0, 1::2] = -1
    indices[1, 3:40] = 300
    indices[2] = -1
    out = sparse_attention(q, kv, indices, lens, sentinel="check")
    assert relative_error(out, sparse_attention_reference(q, kv, indices, lens)) < LIMITS[torch.float32]
    assert bool((out[2] == 0).all())


def test_entries_behind_the_length_are_not_read(backend):
    q, kv, indices, lens = batch_of(device=backend)
    expected = sparse_attention_reference(q, kv, indices, lens)
    indices[2, 17:] = poisoned((47,), torch.int32)[0].item()
    assert relative_error(sparse_attention(q, kv, indices, lens, "trust"), expected) < LIMITS[torch.float32]


def test_trust_reads_the_neighbour_in_silence():
    """-1 in a cache that lies inside a larger buffer: the row before it belongs to somebody else. CPU, fast."""
    buffer = torch.randn(301, 64, generator=torch.Generator().manual_seed(1))
    q, _, indices, lens = batch_of(dim=64)
    indices[0, 5] = -1
    out = sparse_attention(q, buffer[1:], indices, lens, sentinel="trust")
    as_if_owned = sparse_attention_reference(q, buffer, indices + 1, lens)
    assert relative_error(out, as_if_owned) < LIMITS[torch.float32]


def test_bad_input_says_what_is_wrong(backend):
    q, kv, indices, lens = batch_of(device=backend)
    cases = [
        ((q.half(), kv, indices, lens), TypeError, ("q", "float16")),
        ((q, kv[:, :32], indices, lens), ValueError, ("kv_cache", "[300, 32]", "96")),
        ((q, kv, indices.long(), lens), TypeError, ("indices", "int64", "int32")),
        ((q, kv, indices[:2], lens), ValueError, ("indices", "[2, 64]", "[3, any]")),
        ((q, kv, indices, -lens), ValueError, ("seq_lens", "-1000")),
        ((q, kv, indices.repeat(1, 33), lens), ValueError, ("indices", "2112", "2048")),
        ((q, kv, indices, lens, "skip"), ValueError, ("sentinel", "'skip'", "'trust' or 'check'")),
        ((q, kv.T.contiguous().T, indices, lens), ValueError, ("kv_cache", "stride")),
    ]
    for arguments, error, words in cases:
        with refused(error, *words):
            sparse_attention(*arguments)
    assert sparse_attention(q[:0], kv, indices[:0], lens[:0]).shape == (0, 2, 96)
