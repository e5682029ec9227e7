"""Every kernel test runs on each backend: the CPU build with its threads in every order and under ASan + UBSan, and a
GPU where there is one."""

import pytest
import torch

import helpers
from helpers import cpu

# On the CPU: mode and order of threads. A kernel that is right in one order only lacks a barrier.
CPU_BACKENDS = {
    "fast": ("fast", "forward"),
    "reverse": ("fast", "reverse"),
    "random": ("fast", "random"),
    "checked": ("checked", "forward"),
}
BACKENDS = [*CPU_BACKENDS, *(["cuda"] if helpers.device() == "cuda" else [])]


@pytest.fixture(params=BACKENDS)
def device(request):
    """The torch device of the backend under test; a CPU backend's mode and order hold for the length of the test."""
    if request.param == "cuda":
        yield torch.device("cuda", 0)
        return
    mode, order = CPU_BACKENDS[request.param]
    with cpu.mode(mode, order=order, seed=1):
        yield torch.device("cpu")


@pytest.fixture
def is_fast(request):
    """Whether the backend is the one for large shapes."""
    return request.node.callspec.params["device"] in ("fast", "cuda")
