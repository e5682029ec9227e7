"""The border between what the CPU build runs and what it refuses, measured: each entry of border/table.py."""

import functools
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from border import table

from helpers import compile_cuda, compile_to_cubin, cpu, launch
from helpers.cpu.scan import kernels

FOLDER = Path(__file__).parent / "border"
RUNS = [("fast", order) for order in cpu.ORDERS] + [(mode, "forward") for mode in ("checked", "msan", "tsan")]


@functools.cache
def compiled(file, device):
    return compile_cuda(FOLDER / file, table.names(file), device=device)


def tensor(value, device):
    """What a kernel gets for an argument: a fresh tensor for an array, a scalar as it is."""
    if isinstance(value, np.generic):
        return value
    value = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(value))
    return value.clone().to(device)


def check(entry, device):
    args = [tensor(value, device) for value in entry.args]
    launch(compiled(entry.file, device).get_function(entry.kernel), entry.grid, entry.block, args, entry.shared_mem)
    for position, value in enumerate(entry.args):
        if isinstance(value, np.generic):
            continue
        got = args[position].cpu()
        if position not in entry.expected:
            if entry.writes_freely != position:
                assert_same(got, tensor(value, "cpu"), 0.0)
            continue
        assert_same(got, entry.expected[position], entry.rtol)


def assert_same(got, want, rtol):
    want = want if isinstance(want, torch.Tensor) else torch.from_numpy(np.array(want))
    assert got.shape == want.shape or got.numel() == want.numel()
    got, want = got.flatten(), want.flatten()
    if not got.is_floating_point():
        assert got.tolist() == want.tolist()
    elif rtol == 0:
        torch.testing.assert_close(got, want.to(got.dtype), rtol=0, atol=0, equal_nan=True)
    else:
        got, want = got.double(), want.double()
        wrong = (got - want).abs() > rtol * want.abs().clamp(min=0.5)
        assert not wrong.any(), (got[wrong][:5], want[wrong][:5])


@pytest.mark.parametrize("run", RUNS, ids="-".join)
@pytest.mark.parametrize("entry", table.ENTRIES, ids=str)
def test_the_cpu_build_gives_the_expected_answer(entry, run):
    mode, order = run
    if reason := cpu.missing_modes().get(mode):
        pytest.skip(reason)
    with cpu.mode(mode, order=order, seed=3):
        check(entry, "cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("entry", table.ENTRIES, ids=str)
def test_a_gpu_gives_the_expected_answer(entry):
    check(entry, "cuda")


NEEDS_NVRTC = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs NVRTC, which CuPy brings")


def refusal(name, compile):
    with pytest.raises(cpu.CompileError) as caught:
        compile(FOLDER / "refused" / f"{name}.cu", ["kernel"])
    return str(caught.value)


@NEEDS_NVRTC
@pytest.mark.parametrize("name", [*table.LEGAL, *table.ILLEGAL])
def test_the_cpu_build_refuses_in_words(name):
    words = refusal(name, functools.partial(compile_cuda, device="cpu"))
    assert re.search({**table.LEGAL, **table.ILLEGAL}[name], words), words
    if name != "cluster":  # known from sm_90 on, and sources are checked for the oldest GPU
        assert ("NVRTC compiles this for a GPU" in words) == (name in table.LEGAL)


@NEEDS_NVRTC
def test_nvrtc_draws_the_line_between_legal_and_illegal():
    """What the CPU build alone refuses is legal CUDA, and the rest isn't: no GPU is needed to know."""
    for name in table.LEGAL:
        assert compile_to_cubin(FOLDER / "refused" / f"{name}.cu", ["kernel"]).cubin
    for name in table.ILLEGAL:
        refusal(name, functools.partial(compile_to_cubin, arch="sm_80"))


def test_every_file_has_its_entry():
    assert {path.stem for path in FOLDER.glob("refused/*.cu")} == {*table.LEGAL, *table.ILLEGAL}
    for path in FOLDER.glob("*.cu"):
        assert len(kernels(path.read_text())) == len(
            {entry.kernel.split("<")[0] for entry in table.ENTRIES if entry.file == path.name}
        )
