"""The ends of child processes: with their parent, at their limit, with all that they started, in little memory."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from processes import running, wait_until, written

from helpers.processes import KEPT, Kept, run_supervised
from helpers.proof.children import run_in_child

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt a daemon")


def note(folder, process):
    """Leave a process id in the folder, all of it at once."""
    unfinished = Path(folder, f"{process}.part")
    unfinished.write_text(str(process))
    unfinished.rename(Path(folder, f"{process}.pid"))


def hold_the_lock(folder):
    """Sleep as a C extension may: no other thread of this process can run Python."""
    import ctypes

    note(folder, os.getpid())
    ctypes.PyDLL(None).sleep(600)


def daemon(folder):
    """Leave a process behind that is in no session of ours, and that holds stdout and stderr open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(folder, os.getpid())
            time.sleep(600)
        os._exit(0)


def start_all_kinds(folder):
    """A process of the same session, one of its own session, a daemon, and a nested child: four that go on."""
    from threading import Thread

    for own_session in (False, True):
        process = subprocess.Popen(["sleep", "600"], start_new_session=own_session)
        note(folder, process.pid)
    daemon(folder)
    nested = Thread(target=run_in_child, args=(hold_the_lock, folder), kwargs={"timeout": 600}, daemon=True)
    nested.start()
    written(Path(folder), 4)


def start_all_kinds_and_return(folder):
    start_all_kinds(folder)
    return "a result"


def start_all_kinds_and_hang(folder):
    start_all_kinds(folder)
    hold_the_lock(folder)


def fork_while_waiting(folder):
    """In the parent: a fork has all its descriptors, and lives longer."""
    written(Path(folder), 1)
    if os.fork() == 0:
        note(folder, os.getpid())
        time.sleep(60)
        os._exit(0)


def hold_the_lock_in_a_nested_child(folder):
    run_in_child(hold_the_lock, folder, timeout=600)


def gone(processes):
    wait_until(lambda: not any(map(running, processes)), 20)


PARENT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path[:0] = {folders!r}
from threading import Thread
from test_lifetimes import fork_while_waiting, run_in_child, {function}
if {forks}:
    Thread(target=fork_while_waiting, args=({folder!r},)).start()
run_in_child({function}, {folder!r}, timeout=600)
"""


def start_parent(function, folder, forks=False):
    here = Path(__file__).parent
    names = {"function": function, "folder": str(folder), "forks": forks, "folders": [str(here), str(here.parent)]}
    program = PARENT.format(**names)
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_all_that_a_child_started_ends_with_the_parent(number, tmp_path):
    parent = start_parent("start_all_kinds_and_hang", tmp_path)
    processes = written(tmp_path, 5)
    assert all(map(running, processes))
    parent.send_signal(number)
    error = parent.communicate(timeout=60)[1]
    gone(processes)
    assert parent.returncode == -number
    assert ("KeyboardInterrupt" in error) == (number == signal.SIGINT)


def test_a_fork_of_the_parent_is_not_taken_for_it(tmp_path):
    parent = start_parent("hold_the_lock", tmp_path, forks=True)
    processes = written(tmp_path, 2)
    parent.kill()
    parent.wait()
    wait_until(lambda: sum(map(running, processes)) == 1, 20)
    for process in processes:
        if running(process):
            os.kill(process, signal.SIGKILL)


def test_an_interrupted_wait_ends_the_child_before_it_goes_on(tmp_path):
    """As with Ctrl-C in a notebook, whose process lives on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    from threading import Thread

    def interrupt():
        written(tmp_path, 1)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_child(hold_the_lock, str(tmp_path), timeout=120)
    finally:
        signal.signal(signal.SIGINT, before)
    (process,) = written(tmp_path, 1)
    assert not running(process)


@linux
def test_what_is_left_behind_ends_with_the_child_and_loses_no_result(tmp_path):
    outcome = run_in_child(start_all_kinds_and_return, str(tmp_path), timeout=100)
    assert (outcome.status, outcome.value) == ("finished", "a result")
    assert outcome.seconds < 100
    assert not any(map(running, written(tmp_path, 4)))


@linux
def test_the_limit_ends_everything(tmp_path):
    outcome = run_in_child(start_all_kinds_and_hang, str(tmp_path), timeout=15)
    assert outcome.status == "timed out" and "killed after 15 s" in str(outcome) and outcome.seconds < 60
    assert not any(map(running, written(tmp_path, 5)))


def test_a_nested_child_ends_with_the_outer_limit(tmp_path):
    assert run_in_child(hold_the_lock_in_a_nested_child, str(tmp_path), timeout=25).status == "timed out"
    (process,) = written(tmp_path, 1)
    gone([process])


@linux
def test_a_command_ends_when_only_its_supervisor_is_killed(tmp_path):
    """Here the kernel does it: nobody is left that could."""
    path = tmp_path / "1.pid"
    program = f"import os, time; p = {str(path)!r}; open(p + 'art', 'w').write(str(os.getpid())); "
    program += "os.rename(p + 'art', p); os.kill(os.getppid(), 9); time.sleep(600)"
    ended = run_supervised([sys.executable, "-c", program], 100)
    assert ended.status == -signal.SIGKILL
    gone(written(tmp_path, 1))


@pytest.mark.parametrize("status", [0, 3, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV])
def test_the_status_is_the_commands(status):
    end = f"os._exit({status})" if status >= 0 else f"os.kill(os.getpid(), {-status})"
    assert run_supervised([sys.executable, "-c", f"import os; {end}"], 60).status == status


def test_a_missing_program_says_so():
    ended = run_supervised(["/no/such/program"], 60, stderr=subprocess.PIPE)
    assert (ended.status, ended.stderr) == (127, "/no/such/program: No such file or directory\n")


def test_a_command_that_closes_its_output_is_still_waited_for():
    program = "import os, time; os.write(1, b'said'); os.close(1); time.sleep(1); os._exit(5)"
    ended = run_supervised([sys.executable, "-c", program], 60, stdout=subprocess.PIPE)
    assert (ended.status, ended.stdout) == (5, "said")


# ---- output --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_kept_says_how_much_it_cut(cut):
    kept, data = Kept(), bytes(range(32, 127)) * (2 * KEPT // 95 + 1)
    data = data[: 2 * KEPT + cut]
    for start in range(0, len(data), 1000):
        kept.add(data[start : start + 1000])
    note = f"\n[... {cut} bytes cut: only the first and the last {KEPT} of {len(data)} bytes are kept ...]\n"
    assert kept.text() == (data[:KEPT].decode() + note * bool(cut) + data[-KEPT:].decode())


def print_for_ever():
    for number in range(10**12):
        sys.stderr.write(f"{number:09}\n" * 1000)
        sys.stdout.write("lost " * 1000)


def test_a_child_that_prints_for_ever_costs_no_memory():
    tracemalloc.start()
    try:
        outcome = run_in_child(print_for_ever, timeout=8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.status == "timed out" and outcome.tool_text.startswith("000000000\n")
    printed = int(outcome.tool_text.partition(" bytes cut")[0].rpartition(" ")[2])
    assert printed > 10e6 > peak and len(outcome.tool_text) < 2 * KEPT + 200
