import os
import time

import pytest
import torch

from helpers.experiments import run_in_child
from helpers.kernel import device as best_device

GPU = best_device() == "cuda"


def add(a, b):
    return a + b


def fail(text):
    raise KeyError(text)


def hang():
    time.sleep(600)


def die():
    os.abort()


def print_environment(name):
    return os.environ.get(name)


def trap(device):
    """A store to a slot outside the cache, with the host's check switched off: the kernel itself traps."""
    from helpers.store_cache import store_cache

    rows = torch.ones(1, 64, device=device)
    caches = [torch.zeros(4, 64, device=device) for _ in range(2)]
    store_cache(rows, rows, *caches, torch.tensor([4], device=device))


def test_a_value_comes_back():
    outcome = run_in_child(add, torch.tensor([1, 2]), b=torch.tensor([3, 4]))
    assert outcome.status == "finished" and outcome.value.tolist() == [4, 6]


def test_an_exception_comes_back_with_its_type_and_text():
    outcome = run_in_child(fail, "no such key")
    assert (outcome.status, outcome.type) == ("raised", "KeyError")
    assert "no such key" in outcome.message and "fail" in outcome.tool_text
    assert "raised: KeyError" in str(outcome)


def test_a_child_that_hangs_is_killed():
    started = time.perf_counter()
    assert run_in_child(hang, timeout=3).status == "timed out"
    assert time.perf_counter() - started < 60


def test_a_child_that_dies_is_told_from_one_that_raises():
    outcome = run_in_child(die)
    assert outcome.status == "died" and "-6" in outcome.message


def test_device_mode_and_environment_reach_the_child():
    assert run_in_child(print_environment, "KERNEL_DEVICE", device="cpu").value == "cpu"
    assert run_in_child(print_environment, "KERNEL_MODE", mode="checked").value == "checked"
    assert run_in_child(print_environment, "FOO", environment={"FOO": "bar"}).value == "bar"


def test_a_function_that_only_a_notebook_has_travels_as_source(tmp_path):
    """As defined in __main__, where pickle can't find it."""
    script = tmp_path / "cell.py"
    script.write_text(
        "from helpers.experiments import run_in_child\n"
        "def double(x):\n    import math\n    return math.fsum([x, x])\n"
        "print(run_in_child(double, 21.0).value)\n"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "42.0", done.stderr


@pytest.mark.parametrize("device", ["cpu"] + ["cuda"] * GPU)
def test_a_trap_in_a_kernel_is_reported_and_the_parent_goes_on(device):
    outcome = run_in_child(trap, device, device=device, environment={"KERNEL_CHECK": "0"})
    assert outcome.status == "raised", outcome
    assert "store_cache" in (outcome.kernel or "")
    if device == "cuda":
        assert float(torch.ones(3, device="cuda").sum()) == 3  # this process's context is unharmed


def start_a_child_and_hang(path):
    import subprocess

    subprocess.Popen(["sh", "-c", f"sleep 5; echo alive > {path}"])
    time.sleep(600)


def test_what_a_killed_child_started_is_killed_with_it(tmp_path):
    run_in_child(start_a_child_and_hang, str(tmp_path / "mark"), timeout=4)
    time.sleep(6)
    assert not (tmp_path / "mark").exists()


def return_a_lock():
    import threading

    return threading.Lock()


def test_a_value_that_cannot_travel_is_an_exception():
    outcome = run_in_child(return_a_lock)
    assert outcome.status == "raised" and "pickle" in outcome.message


def test_something_else_than_a_function_is_refused():
    import functools

    with pytest.raises(TypeError, match="function is functools.partial"):
        run_in_child(functools.partial(add, 1))
