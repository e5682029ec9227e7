"""A child that ruins its CUDA context, fills the card, or never ends: the parent goes on, the card is free again."""

import gc
from pathlib import Path

import pytest
import torch
from processes import wait_until

from helpers import compile_cuda, launch
from helpers.kernel import device
from helpers.proof.children import run_in_child

pytestmark = pytest.mark.skipif(device() != "cuda", reason="needs a GPU")

# Bytes that a child takes: half of the card, so that one which doesn't get them back shows it, whatever other processes
# do with the rest. They may come and go, a context each.
HELD = torch.cuda.mem_get_info()[1] // 2 if device() == "cuda" else 0
NOISE = HELD // 2


def kernel(name, parameters, code):
    source = f'\nextern "C" __global__ void {name}({parameters}) {{ {code} }}\n'
    return compile_cuda(source, device="cuda").get_function(name)


def free():
    return torch.cuda.mem_get_info()[0]


@pytest.fixture
def card():
    """The parent has a context, memory and a kernel in use, before and after; the card has its memory back."""
    numbers = torch.arange(1000, device="cuda")
    double = kernel("twice", "long long* x", "x[threadIdx.x] *= 2;")
    launch(double, (1,), (1000,), (numbers,))
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    before = free()
    yield
    launch(double, (1,), (1000,), (numbers,))
    assert numbers.tolist() == [4 * number for number in range(1000)]
    assert float(torch.ones(300, device="cuda").sum()) == 300
    # The driver may still be taking the context apart when the process has ended.
    wait_until(lambda: free() >= before - NOISE, 30)


def never_end(path):
    held = torch.ones(HELD, dtype=torch.uint8, device="cuda")
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    spin = kernel("spin", "volatile int* flag", "while (*flag == 0) {}")
    torch.cuda.synchronize()
    Path(path).write_text(str(held.numel()))
    launch(spin, (1,), (1,), (flag,))
    torch.cuda.synchronize()
    Path(path).write_text("it ended")


def test_a_kernel_that_never_ends_is_killed_at_the_limit(card, tmp_path):
    """Not alone: it takes half of the card, and its kernel takes turns with those of others."""
    outcome = run_in_child(never_end, str(tmp_path / "mark"), device="cuda", timeout=25)
    assert outcome.status == "timed out", outcome
    assert (tmp_path / "mark").read_text() == str(HELD)


def fill_the_card():
    held = []
    while True:
        held.append(torch.ones(HELD, dtype=torch.uint8, device="cuda"))


@pytest.mark.alone_on_gpu
def test_a_child_out_of_memory_says_so(card):
    outcome = run_in_child(fill_the_card, device="cuda")
    assert (outcome.status, outcome.type) == ("raised", "OutOfMemoryError"), outcome
    assert "CUDA out of memory" in outcome.message


def write_anywhere():
    held = torch.ones(HELD, dtype=torch.uint8, device="cuda")
    launch(kernel("wild", "unsigned char* p", "p[1ll << 40] = 1;"), (1,), (1,), (held,))
    torch.cuda.synchronize()


@pytest.mark.alone_on_gpu
def test_an_illegal_access_stays_in_the_child(card):
    outcome = run_in_child(write_anywhere, device="cuda")
    assert outcome.status == "raised", outcome
    assert "illegal" in (outcome.message + outcome.tool_text).lower()


def die_with_the_card_in_use():
    import os

    torch.ones(HELD, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    os.abort()


@pytest.mark.alone_on_gpu
def test_a_child_that_aborts_gives_the_card_back(card):
    outcome = run_in_child(die_with_the_card_in_use, device="cuda")
    assert outcome.status == "died" and "SIGABRT" in outcome.message, outcome
