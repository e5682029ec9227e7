"""Every kernel test runs on each backend: the CPU build, fast and under ASan + UBSan, and a GPU where there is one."""

import contextlib

import pytest
import torch

import helpers
from helpers import cpu


def _backends():
    yield from ("fast", "checked")
    if helpers.device() == "cuda":
        yield "cuda"


@pytest.fixture(params=_backends())
def device(request):
    """The torch device of the backend under test; a CPU backend's mode holds for the length of the test."""
    is_gpu = request.param == "cuda"
    with contextlib.nullcontext() if is_gpu else cpu.mode(request.param):
        yield torch.device("cuda", 0) if is_gpu else torch.device("cpu")


@pytest.fixture
def is_fast(request):
    """Whether the backend can afford large shapes."""
    return "checked" not in request.node.name
