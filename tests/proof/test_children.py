import functools
import os
import time

import pytest
import torch

from helpers.kernel import device as best_device
from helpers.proof.children import run_in_child

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
    from helpers.operations.store_cache import store_cache

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
        "from helpers.proof.children import run_in_child\n"
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


# ---- how a child can fail ------------------------------------------------------------------------------


class Odd(Exception):
    """Its attributes are those of a KernelFault, and can't be pickled; its text fails."""

    def __init__(self):
        import threading

        self.kernel = self.line = self.report = threading.Lock()

    def __str__(self):
        raise ValueError("no text")


def raise_odd():
    raise Odd


class OddProperty(RuntimeError):
    @property
    def kernel(self):
        raise SystemExit


def raise_odd_property():
    raise OddProperty("its text")


def leave(how):
    raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt, "BaseException": BaseException}[how]("why")


def recurse():
    return recurse() + 1


def ask_for_too_much():
    return bytearray(1 << 60)


def close_stderr_and_fail():
    import sys

    os.close(2)
    sys.stderr.close()
    raise KeyError("unheard")


@pytest.mark.parametrize(
    "function, args, type, message",
    [
        (raise_odd, (), "Odd", "(str() of it fails with ValueError)"),
        (raise_odd_property, (), "OddProperty", "its text"),
        (leave, ("SystemExit",), "SystemExit", "why"),
        (leave, ("KeyboardInterrupt",), "KeyboardInterrupt", "why"),
        (leave, ("BaseException",), "BaseException", "why"),
        (recurse, (), "RecursionError", "maximum recursion depth exceeded"),
        (ask_for_too_much, (), "MemoryError", ""),
        (close_stderr_and_fail, (), "KeyError", "'unheard'"),
    ],
)
def test_every_exception_comes_back(function, args, type, message):
    outcome = run_in_child(function, *args)
    assert (outcome.status, outcome.type, outcome.message) == ("raised", type, message)
    assert (outcome.kernel, outcome.line) == (None, None)


class BadFault(RuntimeError):
    kernel, line, report = "kernel", 7, "what the tool said"


def raise_fault():
    raise BadFault("bad")


def test_the_place_and_the_report_of_a_fault_come_back():
    outcome = run_in_child(raise_fault)
    assert (outcome.kernel, outcome.line, outcome.tool_text) == ("kernel", 7, "what the tool said")
    assert str(outcome) == "raised in kernel, line 7: BadFault: bad"


def exit_at_once(status):
    os.write(2, b"first\nthe reason\n")
    os._exit(status)


def die_in_the_report():
    import signal

    write = os.pwrite

    def half(descriptor, data, offset):
        write(descriptor, data[:10], offset)
        os.kill(os.getpid(), signal.SIGKILL)

    os.pwrite = half
    return "x" * 1000


def return_more_than_fits():
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return "x" * 10000


class FailsToLoad:
    def __reduce__(self):
        return int, ("not a number",)


def return_what_fails_to_load():
    return FailsToLoad()


def test_an_exit_without_a_word_gives_its_status_and_the_last_words():
    outcome = run_in_child(exit_at_once, 3)
    assert (outcome.status, outcome.tool_text) == ("died", "first\nthe reason\n")
    assert outcome.message == "the child ended with exit status 3 and left no report; its last words: the reason"


def test_a_child_killed_in_its_report_is_told_from_one_that_left_none():
    outcome = run_in_child(die_in_the_report)
    assert outcome.status == "died"
    assert outcome.message == "the child ended with exit status -9 (SIGKILL) while it wrote its report"


def hang_after_the_report():
    os._exit = lambda status: time.sleep(600)
    return "a result"


def test_the_limit_loses_no_result_that_is_there():
    outcome = run_in_child(hang_after_the_report, timeout=10)
    assert (outcome.status, outcome.value) == ("finished", "a result") and outcome.seconds >= 10


def test_a_report_that_cannot_be_written_names_the_cause():
    outcome = run_in_child(return_more_than_fits)
    assert (outcome.status, outcome.type) == ("raised", "OSError")
    assert "can't be written into the child's report" in outcome.message and "File too large" in outcome.message


def test_a_full_disk_is_not_in_the_way(monkeypatch):
    import tempfile

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.setattr(tempfile, name, full)
    assert run_in_child(add, 1, 2).value == 3


def test_no_room_for_the_child_is_an_outcome_too(monkeypatch):
    from helpers.proof import children as experiments

    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(experiments, "nameless_file", full)
    outcome = run_in_child(add, 1, 2)
    assert outcome.status == "died" and "could not be started: [Errno 28] No space left" in str(outcome)


def test_a_value_that_cannot_be_loaded_here_is_an_exception():
    outcome = run_in_child(return_what_fails_to_load)
    assert (outcome.status, outcome.type) == ("raised", "ValueError")
    assert "returned a value that can't be unpickled here: invalid literal for int()" in outcome.message


def test_an_argument_that_cannot_be_loaded_there_is_an_exception():
    outcome = run_in_child(add, 1, FailsToLoad())
    assert (outcome.status, outcome.type) == ("raised", "TypeError")
    assert "an argument can't be unpickled in the child: ValueError: invalid literal" in outcome.message


def return_from_a_fork_only():
    if os.fork() == 0:
        return "not from the child that was asked"
    time.sleep(1)
    os._exit(3)


def test_a_fork_of_the_child_does_not_report():
    outcome = run_in_child(return_from_a_fork_only)
    assert outcome.status == "died" and "exit status 3" in outcome.message


# ---- what is refused -----------------------------------------------------------------------------------


def closure():
    def inner():
        pass

    return inner


class Holder:
    def method(self):
        pass


decorated = functools.wraps(add)(lambda a, b: a - b)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda: 1, "function is a lambda, which has no name"),
        (closure(), "function is inner, defined inside closure, where the child can't find it"),
        (Holder.method, "function is method, defined inside Holder, where the child can't find it"),
        (Holder().method, "function is <bound method Holder.method"),
        (print, "function is <built-in function print>"),
        (functools.partial(add, 1), "function is functools.partial"),
        (Holder, "function is <class"),
        (decorated, r"test_children\.add is something else"),
        ("add", "function is 'add'"),
    ],
)
def test_a_function_that_cannot_travel_is_refused_with_the_reason(function, reason):
    with pytest.raises(TypeError, match=rf"{reason}.*; it should be a function that def makes at the top level"):
        run_in_child(function)


def test_a_function_without_source_is_refused():
    space = {"__name__": "__main__"}
    exec("def typed(): pass", space)
    with pytest.raises(TypeError, match="function is typed, whose source can't be found"):
        run_in_child(space["typed"])


def test_an_argument_that_cannot_travel_is_named():
    lock = return_a_lock()
    for args, kwargs, name in (((1, lock), {}, "b"), ((1,), {"b": lock}, "b"), ((1, 2, lock), {}, r"args\[2\]")):
        with pytest.raises(TypeError, match=rf"^{name} is a lock, which can't travel to the child: "):
            run_in_child(add, *args, **kwargs)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), None, "3"])
def test_a_limit_that_is_none_is_refused(timeout):
    with pytest.raises(ValueError, match="^timeout is .*; it should be a positive number of seconds$"):
        run_in_child(add, 1, 2, timeout=timeout)
