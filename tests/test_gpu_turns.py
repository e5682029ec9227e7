"""Turns on a GPU: alone means alone, and whoever waits to be alone gets its turn."""

import threading
import time
from types import SimpleNamespace

import pytest
from gpu_turns import ALONE, NO_GPU, SHARED, Turns, turn_of
from processes import wait_until

from helpers.lessons.files import NOTEBOOKS

pytestmark = pytest.mark.no_gpu


def in_thread(folder, turn, log, name, hold=None):
    """A worker that takes a turn, logs it, and holds it until `hold` is set."""

    def work():
        turns = Turns(folder)
        turns.take(turn)
        log.append(name)
        if hold:
            hold.wait(10)
        log.append(f"{name} ends")
        turns.give_back()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_two_share_and_one_alone_waits_for_both(tmp_path):
    log, hold = [], threading.Event()
    first, second = (in_thread(tmp_path, SHARED, log, name, hold) for name in ("first", "second"))
    wait_until(lambda: len(log) == 2)
    alone = in_thread(tmp_path, ALONE, log, "alone")
    time.sleep(0.2)
    assert sorted(log) == ["first", "second"]  # Red if alone does not wait
    hold.set()
    for thread in (first, second, alone):
        thread.join(10)
    assert log[-2:] == ["alone", "alone ends"]


def test_nobody_overtakes_one_who_waits_to_be_alone(tmp_path):
    log, hold = [], threading.Event()
    first = in_thread(tmp_path, SHARED, log, "first", hold)
    wait_until(lambda: log == ["first"])
    alone = in_thread(tmp_path, ALONE, log, "alone")
    time.sleep(0.2)
    late = in_thread(tmp_path, SHARED, log, "late")
    time.sleep(0.2)
    assert log == ["first"]  # Red without the gate: "late" would share with "first", and "alone" wait for ever
    hold.set()
    for thread in (first, alone, late):
        thread.join(10)
    assert log == ["first", "first ends", "alone", "alone ends", "late", "late ends"]


def test_what_needs_no_gpu_never_waits(tmp_path):
    log, hold = [], threading.Event()
    alone = in_thread(tmp_path, ALONE, log, "alone", hold)
    wait_until(lambda: log == ["alone"])
    free = in_thread(tmp_path, NO_GPU, log, "free")
    free.join(10)
    assert log == ["alone", "free", "free ends"]
    hold.set()
    alone.join(10)


def item(path="tests/test_kernel.py", marks=(), **parameters):
    callspec = SimpleNamespace(params=parameters)
    return SimpleNamespace(path=NOTEBOOKS / path, callspec=callspec, get_closest_marker=marks.__contains__)


@pytest.mark.parametrize(
    ("test", "turn"),
    [
        (item(), SHARED),
        (item(device="cuda"), SHARED),
        (item(device="cpu"), NO_GPU),
        (item(backend="checked"), NO_GPU),
        (item(marks=("no_gpu",)), NO_GPU),
        (item(marks=("alone_on_gpu",)), ALONE),
        (item(marks=("alone_on_gpu",), backend="fast"), NO_GPU),
        (item("21_unwritten_slots.ipynb"), NO_GPU),
        (item("31_a_small_server.ipynb"), NO_GPU),
        (item(lesson="21_unwritten_slots", device="cuda"), ALONE),
        (item(lesson="31_a_small_server", device="cuda"), ALONE),
        (item("10_zero_times_nan.ipynb"), SHARED),
        (item(lesson="30_find_it_with_tools", device="cuda"), ALONE),
        (item(lesson="30_find_it_with_tools", device="cpu"), NO_GPU),
    ],
)
def test_how_a_test_uses_the_gpu(test, turn):
    assert turn_of(test) == turn
