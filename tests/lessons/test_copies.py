"""What an executed copy was made from: every file that its run read, and none that it did not."""

import subprocess
import sys

import nbformat
import pytest

from helpers.lessons import copies
from helpers.lessons.used import listening

pytestmark = pytest.mark.no_gpu

PROGRAM = """
import subprocess, sys
import early

def later():
    import lazy
    return lazy.VALUE

def data():
    return open("data.txt").read()

later(), data()
subprocess.run([sys.executable, "-c", "import child"], check=True)
open("written.txt", "w").write("x")
"""
FILES = {
    "program.py": PROGRAM,
    "early.py": "VALUE = 1\n",
    "lazy.py": "VALUE = 2\n",
    "child.py": "VALUE = 3\n",
    "data.txt": "4\n",
    "unused.py": "VALUE = 5\n",
    ".venv/hidden.py": "",
    "notebooks/executed/copy.txt": "",
}


@pytest.fixture
def project(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def files_of(project):
    with listening(project) as listener:
        environment = {"PATH": "/usr/bin:/bin", **listener.environment}
        environment["PYTHONPATH"] += f":{project}"
        subprocess.run([sys.executable, "program.py"], cwd=project, env=environment, check=True)
    return listener.files


@pytest.mark.parametrize("run", ("from source", "from the bytecode cache"))
def test_lazy_imports_children_and_data_are_seen(project, run):
    """Red if an import inside a function, one of a child process, or a data file could hide."""
    if run == "from the bytecode cache":
        files_of(project)
        assert list(project.glob("__pycache__/lazy*.pyc"))
    used = files_of(project)
    assert used.keys() == {"program.py", "early.py", "lazy.py", "child.py", "data.txt"}


def test_what_is_outside_or_hidden_does_not_count(project):
    names = (".venv/hidden.py", "notebooks/executed/copy.txt", "/dev/null")
    (project / "program.py").write_text("\n".join(f"open({name!r})" for name in names))
    assert files_of(project).keys() == {"program.py"}


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """A lesson and its copy, made from two files."""
    monkeypatch.setattr(copies, "hashes", lambda names: {name: f"hash of {name}" for name in names})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1", id="sum")])
    nbformat.write(notebook, tmp_path / "40_lesson.ipynb")
    executed = tmp_path / "executed"
    executed.mkdir()
    used = {"kernels/a.cu": "hash of kernels/a.cu", "helpers/b.py": "hash of helpers/b.py"}
    notebook.metadata["provenance"] = {"cells": copies.cells_hash(notebook), "files": used}
    nbformat.write(notebook, executed / "40_lesson.ipynb")
    return tmp_path / "40_lesson.ipynb", executed


def test_a_copy_is_fresh_until_a_file_that_it_used_changes(lesson, monkeypatch):
    assert copies.why_stale(*lesson) == ""
    changed = {"helpers/b.py": "another hash", "helpers/c.py": "another hash"}
    monkeypatch.setattr(copies, "hashes", lambda names: {name: changed.get(name, f"hash of {name}") for name in names})
    assert copies.why_stale(*lesson) == "helpers/b.py changed since"


def test_a_file_that_is_gone_and_changed_cells_are_named(lesson, monkeypatch):
    monkeypatch.setattr(copies, "hashes", lambda names: {})
    assert copies.why_stale(*lesson) == "helpers/b.py, kernels/a.cu changed since"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 2", id="sum")]), lesson[0])
    assert copies.why_stale(*lesson) == "its cells have changed"
    (lesson[1] / "40_lesson.ipynb").unlink()
    assert copies.why_stale(*lesson) == "it is missing"
