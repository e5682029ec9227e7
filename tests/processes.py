"""What tests of child processes share."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def running(process):
    """Whether the process with this id runs; one that has ended but that nobody has asked for doesn't."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it ended between the two lines, or there is no /proc
        return not Path("/proc/self").exists()


def wait_until(condition, patience=60):
    """Wait until condition() is true; AssertionError after so many seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience} s"
        time.sleep(0.05)


def written(folder, count):
    """The process ids that `count` files of a folder hold, once they are all there."""
    wait_until(lambda: sum(1 for _ in folder.glob("*.pid")) >= count)
    return [int(path.read_text()) for path in folder.glob("*.pid")]


def interrupted(program):
    """What a Python program prints that gets Ctrl-C a moment after it has printed "ready"."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    return child.communicate(timeout=20)[0]
