"""Fixtures for every test: one run covers each device that this machine has."""

import os
from pathlib import Path

# Several tests run at once on few cores; more threads in each would only make them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import psutil  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from gpu_turns import Turns  # noqa: E402

from helpers import cpu, device as best_device  # noqa: E402

DEVICES = ["cpu", "cuda"] if best_device() == "cuda" else ["cpu"]
# On the CPU: mode and order of threads. A kernel that is right in one order only lacks a barrier.
CPU_BACKENDS = {
    "fast": ("fast", "forward"),
    "reverse": ("fast", "reverse"),
    "random": ("fast", "random"),
    "checked": ("checked", "forward"),
}


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device that kernels can run on here, as a string: "cpu" always, "cuda" where it is usable."""
    return request.param


@pytest.fixture(params=[*CPU_BACKENDS, *DEVICES[1:]])
def backend(request):
    """Each way to run a kernel, as a torch device: the CPU build with its threads in every order and under ASan and
    UBSan, and a GPU where there is one. Mode and order hold for the length of the test."""
    if request.param == "cuda":
        yield torch.device("cuda", 0)
        return
    mode, order = CPU_BACKENDS[request.param]
    with cpu.mode(mode, order=order, seed=1):
        yield torch.device("cpu")


@pytest.fixture
def is_fast(request):
    """Whether the backend is one for large shapes."""
    return request.node.callspec.params["backend"] in ("fast", "cuda")


@pytest.fixture
def offline(monkeypatch):
    """Every Python process that this test starts refuses sockets that leave the machine."""
    guard = str(Path(__file__).resolve().parent / "offline")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (guard, os.environ.get("PYTHONPATH")))))


def pytest_configure(config):
    config.pluginmanager.register(Turns(), "gpu turns")  # a plugin sees the lessons too, which lie outside tests/


def pytest_xdist_auto_num_workers():
    """One worker a core, if there is memory for as many: each holds torch, and a lesson's kernel beside it."""
    return max(1, min(os.cpu_count() or 1, int(psutil.virtual_memory().available / (1.5 * 2**30))))


def pytest_report_header():
    return f"kernel devices: {', '.join(DEVICES)}"
