"""Every shipped kernel in every variant but the buggy one is clean in every mode of the CPU build."""

import pytest

from helpers import cpu
from helpers.proof import shipped

pytestmark = pytest.mark.no_gpu

MISSING = cpu.missing_modes()


@pytest.mark.parametrize("name", shipped.RUNS)
@pytest.mark.parametrize("mode", cpu.MODES)
def test_is_clean(mode, name, monkeypatch):
    """Red if a sanitizer or the scheduler reports anything at all: a fault is an exception."""
    if mode in MISSING:
        pytest.skip(f"mode {mode} needs {MISSING[mode]}")
    monkeypatch.setenv("KERNEL_CHECK", "0")
    with cpu.mode(mode, order="random", seed=1):
        shipped.RUNS[name]("cpu")
