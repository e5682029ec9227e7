"""Each canary is caught by its tool at its line, and its repaired twin passes everything.

A mode that reports nothing, that reports everything, or that blames another line fails here.
"""

import pytest
import torch

from helpers import cpu
from helpers.tools.canaries import THREADS, all_canaries, release

pytestmark = pytest.mark.no_gpu

CANARIES = {canary.name: canary for canary in all_canaries()}
i = torch.arange(THREADS, dtype=torch.int32)
RIGHT = {
    "deadlock": i,
    "divergent_barrier": i.flip(0),
    "misaligned_vector_load": torch.cat([i[4:], torch.zeros(4, dtype=torch.int32)]),
    "missing_atomic": torch.full_like(i, THREADS),
    "missing_syncthreads": i.flip(0),
    "missing_syncwarp": i ^ 1,
    "out_of_bounds_global": (i - 1).clamp(min=0),
    "out_of_bounds_shared": i.roll(-1),
    "uninitialised_global": i,
    "uninitialised_shared": i,
    "wide_scalar": torch.full_like(i, THREADS),
    "wrong_mask": (i % 32 < 16).int(),
}


def need(mode):
    if reason := cpu.missing_modes().get(mode):
        pytest.skip(f"mode {mode} needs {reason}")


def test_every_canary_has_an_expected_result():
    assert sorted(CANARIES) == sorted(RIGHT)


@pytest.mark.parametrize("name", CANARIES)
def test_the_named_tool_catches_it_at_the_right_line(name):
    canary = CANARIES[name]
    need(canary.mode)
    _, fault = release(canary)
    assert fault is not None, f"{canary.tool} missed: {canary.defect}"
    assert (getattr(fault, "kind", None) or type(fault).__name__) == canary.kind
    if canary.lines:
        assert fault.file == str(canary.path) and fault.line in canary.lines
        assert all(fault.line == line or f"line {line}" in str(fault) for line in canary.lines)
        assert fault.block == (0, 0, 0) and fault.thread is not None
    else:
        assert "argument 2 (n)" in str(fault) and "4 bytes" in str(fault) and "8 bytes" in str(fault)


@pytest.mark.parametrize("mode", cpu.MODES)
@pytest.mark.parametrize("order", cpu.ORDERS)
@pytest.mark.parametrize("name", CANARIES)
def test_the_repaired_twin_is_clean_in_every_mode_and_order(name, mode, order):
    need(mode)
    output, fault = release(CANARIES[name], mode=mode, order=order, seed=1, fixed=True)
    assert fault is None
    assert output.tolist() == RIGHT[name].tolist()


@pytest.mark.parametrize("name", [name for name, canary in CANARIES.items() if canary.tool == "scheduler"])
@pytest.mark.parametrize("order", cpu.ORDERS)
def test_the_scheduler_names_both_lines_in_every_order(name, order):
    canary = CANARIES[name]
    _, fault = release(canary, order=order, seed=2)
    assert fault.kind == canary.kind
    assert len(canary.lines) == 2 and all(f"line {line}" in str(fault) for line in canary.lines)


def test_races_do_not_show_in_the_result_of_a_plain_run():
    """Why tsan is needed: run one thread after another, a missing atomic counts right."""
    output, fault = release(CANARIES["missing_atomic"], mode="fast")
    assert fault is None and output.tolist() == RIGHT["missing_atomic"].tolist()
