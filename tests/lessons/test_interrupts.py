"""A reader interrupts a cell in the middle of a launch, a compile or a child, and runs on from that cell."""

import os
import shutil
import textwrap
import time

import psutil
import pytest
from jupyter_client.manager import KernelManager
from processes import wait_until

from helpers.lessons.files import NOTEBOOKS

pytestmark = pytest.mark.no_gpu

LIMIT = 60  # seconds until a test gives up waiting
# A kernel that says that it runs, waits to be let go, and then gives a value.
SETUP = """
import os, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import torch
from helpers import compile_cuda, cpu, launch
from helpers.proof.children import run_in_child

SOURCE = '''
extern "C" __global__ void held(volatile int* signs, int* out) {
  signs[0] = 1;
  while (signs[1] == 0) {}
  out[0] = 41 + signs[1];
}
'''
held = compile_cuda(SOURCE, device="cpu").get_function("held")
signs = torch.from_file({signs!r}, shared=True, size=2, dtype=torch.int32)

def run(let_go):
    signs[:] = torch.tensor([0, let_go])
    out = torch.zeros(1, dtype=torch.int32)
    launch(held, (1,), (1,), (signs, out))
    return int(out)

def child(mark, seconds):
    import time
    from pathlib import Path
    Path(mark).touch()
    time.sleep(seconds)
    return 42
"""


class Notebook:
    """A kernel to which cells are sent, as JupyterLab does."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "signs").write_bytes(bytes(8))
        self.manager = KernelManager(kernel_name="python3")
        path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
        environment = os.environ | {"KERNEL_DEVICE": "cpu", "KERNEL_CACHE": str(folder / "cache"), "PATH": path}
        self.manager.start_kernel(env=environment, cwd=str(NOTEBOOKS))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def start(self, cell):
        """Send a cell, and don't wait for it. An error stops no other cell, as where a reader runs one at a time."""
        cell = textwrap.dedent(cell)
        return self.client.execute(cell, user_expressions={"answer": "answer"}, stop_on_error=False)

    def end(self, sent):
        """What became of a cell that was sent: "KeyboardInterrupt: ..." or what `answer` is after it."""
        deadline = time.monotonic() + LIMIT
        while True:
            reply = self.client.get_shell_msg(timeout=max(0.1, deadline - time.monotonic()))
            if reply["parent_header"]["msg_id"] == sent:
                break
        content = reply["content"]
        if content["status"] != "ok":
            return f"{content['ename']}: {content['evalue']}"
        return content["user_expressions"]["answer"]["data"]["text/plain"]

    def run(self, cell):
        return self.end(self.start(cell))

    def interrupted(self, cell, *, once):
        """Interrupt a cell once `once()` is true. Returns how the cell ended."""
        sent = self.start(cell)
        wait_until(once)
        self.manager.interrupt_kernel()
        return self.end(sent)

    def children(self):
        return psutil.Process(self.manager.provisioner.pid).children(recursive=True)


def stand_in_for_the_compiler(folder):
    """A g++ that waits while the file `hold` is there, and says so, so that an interrupt meets it at work."""
    name = next(filter(shutil.which, ("g++", "clang++")))
    hold, works, program = folder / "hold", folder / "works", folder / "bin" / name
    waits = f'case " $* " in *" -c "*) while [ -e {hold} ]; do touch {works}; sleep 0.05; done ;; esac'
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n{waits}\nexec {shutil.which(name)} "$@"\n')
    program.chmod(0o755)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    folder = tmp_path_factory.mktemp("interrupts")
    stand_in_for_the_compiler(folder)
    opened = Notebook(folder)
    try:
        assert opened.run("answer = 0" + SETUP.replace("{signs!r}", repr(str(folder / "signs")))) == "0"
        yield opened
    finally:
        opened.close()


def kernel_runs(notebook):
    return lambda: (notebook.folder / "signs").read_bytes()[0] == 1


def nothing_half_done(notebook):
    """No process of the interrupted cell runs on, and the cache holds finished files only."""
    wait_until(lambda: not notebook.children())
    return [path.name for path in (notebook.folder / "cache").iterdir() if path.is_dir()] == []


LAUNCHES = {
    "in the cell": "answer = run({})",
    "in a thread": "with ThreadPoolExecutor(1) as pool:\n    answer = next(pool.map(run, [{}]))",
}


@pytest.mark.parametrize("where", LAUNCHES)
def test_a_launch(notebook, where):
    (notebook.folder / "signs").write_bytes(bytes(8))
    said = notebook.interrupted(LAUNCHES[where].format(0), once=kernel_runs(notebook))
    assert said == "KeyboardInterrupt: held was interrupted at inline.cu:4 (block (0, 0, 0), thread (0, 0, 0))"
    assert notebook.run(LAUNCHES[where].format(1)) == "42" and nothing_half_done(notebook)


def test_a_launch_under_a_sanitizer(notebook):
    cell = "with cpu.mode('checked'):\n    answer = run({})"
    assert notebook.run(cell.format(1)) == "42"  # so that the next one needs no compiler
    assert notebook.interrupted(cell.format(0), once=notebook.children).startswith("KeyboardInterrupt")
    assert nothing_half_done(notebook) and notebook.run(cell.format(1)) == "42"


def built(notebook):
    """What compilers have made. NVRTC's answer may be there before the interrupt, and stays."""
    return {path.name for path in (notebook.folder / "cache").iterdir() if path.suffix != ".nvrtc"}


def test_a_compile(notebook):
    hold, works = notebook.folder / "hold", notebook.folder / "works"
    cell = """
        SUM = SOURCE.replace("held", "sums").replace("41 +", "39 + 2 +")
        held, kept = compile_cuda(SUM, device="cpu").get_function("sums"), held
        answer, held = run(1), kept
    """
    before = built(notebook)
    hold.touch()
    assert notebook.interrupted(cell, once=works.exists).startswith("KeyboardInterrupt")
    assert nothing_half_done(notebook) and built(notebook) == before
    hold.unlink()
    assert notebook.run(cell) == "42"


def test_a_child(notebook):
    mark = notebook.folder / "child"
    cell = f"answer = run_in_child(child, {str(mark)!r}, {{}}).value"
    assert notebook.interrupted(cell.format(600), once=mark.exists).startswith("KeyboardInterrupt")
    assert nothing_half_done(notebook) and notebook.run(cell.format(0)) == "42"


def test_children_in_threads(notebook):
    """As lesson 31 runs them. The cell ends at once; the threads let the children that have begun come to their end."""
    mark = notebook.folder / "children"
    cell = f"""
        with ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(run_in_child, child, {str(mark)!r}, {{}}) for _ in range(3)]
        answer = runs[-1].result().value
    """
    assert notebook.interrupted(cell.format(1), once=mark.exists).startswith("KeyboardInterrupt")
    assert notebook.run(cell.format(0)) == "42" and nothing_half_done(notebook)
