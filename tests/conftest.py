"""Fixtures for every test: one run covers each device that this machine has."""

import os
from pathlib import Path

# Several tests run at once on few cores; more threads in each would only make them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402

from helpers import device as best_device  # noqa: E402

DEVICES = ["cpu", "cuda"] if best_device() == "cuda" else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device that kernels can run on here: "cpu" always, "cuda" where it is usable."""
    return request.param


@pytest.fixture
def offline(monkeypatch):
    """Every Python process that this test starts refuses sockets that leave the machine."""
    guard = str(Path(__file__).resolve().parent / "offline")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (guard, os.environ.get("PYTHONPATH")))))


def pytest_xdist_auto_num_workers():
    """One worker on a GPU: shared memory keeps what a kernel left only while no other process comes between."""
    return 1 if "cuda" in DEVICES else min(os.cpu_count() or 1, 4)


def pytest_report_header():
    return f"kernel devices: {', '.join(DEVICES)}"
