"""Comparisons that several kernel tests share."""

import contextlib

import pytest
import torch
from hypothesis import HealthCheck, settings

# For property tests on every backend, which holds for all examples of a run: no need to set it up for each.
any_example = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def same_bits(a, b):
    """Whether two tensors of one shape and dtype are equal in every bit, NaN included."""
    a, b = (t.detach().cpu().contiguous().view(torch.uint8) for t in (a, b))
    return torch.equal(a, b)


def random_bytes(shape, dtype, seed=0):
    """Any bit pattern at all, NaN included: a copy has to keep it."""
    size = torch.empty(0, dtype=dtype).element_size()
    g = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8, generator=g)
    return raw.view(dtype)


@contextlib.contextmanager
def refused(error, *words, untouched=()):
    """Within: `error` is raised, its message has each of `words`, and no byte of `untouched` changes."""
    before = [tensor.clone() for tensor in untouched]
    with pytest.raises(error) as raised:
        yield
    for word in words:
        assert word in str(raised.value), f"{word!r} is not in: {raised.value}"
    for tensor, copy in zip(untouched, before, strict=True):
        assert same_bits(tensor, copy), "bad input, and yet something was written"
