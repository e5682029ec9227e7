"""Every shipped kernel in every variant but the buggy one is clean in every mode of the CPU build."""

import pytest

from helpers import cpu, shipped

MODES = cpu.available_modes()


@pytest.mark.parametrize("name", shipped.RUNS)
@pytest.mark.parametrize("mode", MODES)
def test_is_clean(mode, name, monkeypatch):
    """Red if a sanitizer or the scheduler reports anything at all: a fault is an exception."""
    if MODES[mode]:
        pytest.skip(f"mode {mode} needs {MODES[mode]}")
    monkeypatch.setenv("KERNEL_CHECK", "0")
    with cpu.mode(mode, order="random", seed=1):
        shipped.RUNS[name]("cpu")
