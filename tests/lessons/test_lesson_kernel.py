"""The kernels of lessons that a test or a command runs: many at once, none on a TCP port."""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from helpers.lessons import kernels as lesson_kernel
from helpers.lessons.running import run
from helpers.machine import ROOT

pytestmark = pytest.mark.no_gpu
# What a kernel says of itself: how it is reached, and the sockets in its folder, one for each of its five channels.
SAYS = """
import json, os, stat
from ipykernel.connect import get_connection_info
info = get_connection_info(unpack=True)
folder = os.path.dirname(info["ip"])
sockets = [name for name in os.listdir(folder) if stat.S_ISSOCK(os.stat(f"{folder}/{name}").st_mode)]
print(json.dumps([info["transport"], sorted(sockets), folder]))
"""
SOCKETS = [f"kernel-ipc-{channel}" for channel in range(1, 6)]


def notebook_of(source):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])


def says(_=None):
    ran = run(notebook_of(SAYS))
    return json.loads(ran.cells[0].outputs[0].text)


def test_many_kernels_at_once_use_no_port_and_leave_no_folder():
    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(says, range(6)))
    assert [answer[:2] for answer in said] == [["ipc", SOCKETS]] * 6
    folders = {answer[2] for answer in said}
    assert len(folders) == 6 and not any(os.path.exists(folder) for folder in folders)


@pytest.mark.parametrize("place", ("notebooks", "."))
def test_nbmake_uses_no_port(place, tmp_path):
    """With the command line of the Makefile, and of a person within the folder. Wrong: a conftest nobody loads."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "conftest.py").write_text((ROOT / "notebooks" / "conftest.py").read_text())
    nbformat.write(notebook_of(f"{SAYS}\nassert (info['transport'], sorted(sockets)) == ('ipc', {SOCKETS})"),
                   tmp_path / "notebooks" / "90_says.ipynb")  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "--nbmake", "-p", "no:cacheprovider", place]
    cwd = tmp_path if place == "notebooks" else tmp_path / "notebooks"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_a_long_tmpdir_still_leaves_room_for_a_sockets_path(tmp_path, monkeypatch):
    short = Path("/tmp") / ("x" * 60)
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    assert lesson_kernel._short_folder() == str(short)
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert lesson_kernel._short_folder() == "/tmp"
    assert says()[0] == "ipc"
