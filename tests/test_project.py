"""The project around the lessons: one list of dependencies, two commands, nothing of one person's machine."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from helpers.lessons import memory as lesson_memory
from helpers.lessons.files import lessons, read, with_map
from helpers.machine import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What everyone gets; zig is for those who have no compiler.
EXTRAS = ",".join(extra for extra in PROJECT["optional-dependencies"] if extra != "zig")
MAKEFILE = (ROOT / "Makefile").read_text()


def tracked_files():
    git = ["git", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listed = subprocess.run(git, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_environment_yml_agrees_with_pyproject():
    text = (ROOT / "environment.yml").read_text()
    items = re.findall(r"^ *- (.+)$", text.split("dependencies:")[1], re.MULTILINE)
    assert items[1:3] == ["pip", "pip:"]
    assert items[3:] == ["-c .ci/constraints.txt", f"-e .[{EXTRAS}]"]
    conda_python = re.fullmatch(r"python=3\.(\d+)", items[0])
    lowest, highest = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    assert int(lowest) <= int(conda_python[1]) < int(highest)
    assert f"name: {PROJECT['name']}" in text


def what_make_installs(folder, *arguments):
    """The commands that `make install` would run in a checkout with a .venv, as make prints them."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    done = subprocess.run(["make", "-n", "install", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path):
    """A folder with what `make install` looks at, and a .venv that was installed after all of it."""
    for name in ("Makefile", "pyproject.toml", ".ci/constraints.txt", ".venv/bin/python", ".venv/.installed"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes() if not name.startswith(".venv") else b"")
        os.utime(path, (2000, 2000) if name == ".venv/.installed" else (1000, 1000))
    return tmp_path


@pytest.mark.parametrize("changed", ["pyproject.toml", ".ci/constraints.txt"])
def test_make_installs_what_environment_yml_installs_whenever_that_changes(checkout, changed):
    assert "pip install" not in what_make_installs(checkout)
    os.utime(checkout / changed, (3000, 3000))
    assert f"-c .ci/constraints.txt -e '.[{EXTRAS}]'" in what_make_installs(checkout)
    newest = what_make_installs(checkout, "CONSTRAINTS=")
    assert ("pip install" in newest) == (changed == "pyproject.toml") and "-c " not in newest


def test_every_dependency_is_pinned():
    listed = PROJECT["dependencies"] + sum(PROJECT["optional-dependencies"].values(), [])
    assert [name for name in listed if "==" not in name] == []


@pytest.mark.parametrize("command", ["make lab", "make test"])
def test_readme_has_the_two_commands(command):
    assert re.search(rf"^{command}$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert re.search(rf"^{command.split()[1]}:", MAKEFILE, re.MULTILINE)


def test_readme_has_the_map_of_the_lessons():
    text = (ROOT / "README.md").read_text()
    assert with_map(text) == text, "run: python -m helpers.lessons map"


def test_readme_says_how_much_memory_the_largest_lesson_takes():
    said = re.findall(r"takes up to\s+(\d+) MiB", (ROOT / "README.md").read_text())
    assert said == [str(lesson_memory.stated())]


def test_links_in_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text())
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


@pytest.mark.parametrize("path", [".ci/run", ".github/workflows/test.yml", ".github/workflows/newest.yml"])
def test_automation_calls_make_test(path):
    assert re.search(r"\bmake test(?: CONSTRAINTS=)?$", (ROOT / path).read_text(), re.MULTILINE)


def test_no_traces_of_one_machine():
    """No absolute path of a developer's machine and no package registry's host in a tracked file."""
    folders = r"/(?:work|root|home/\w+|Users/\w+|opt/pypi|opt/wheels)/"
    hosts = r"https?://[^/\s\"']*(?:pypi|pythonhosted|artifact|nexus|mirror|download\.pytorch)"
    pattern = re.compile(rf"(?<![\w.~$}}]){folders}|{hosts}")
    found = []
    for path in tracked_files():
        if path.name == "test_project.py" or path.suffix in (".png", ".safetensors"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert found == []


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_lessons_hold_no_outputs(path):
    kept = [cell.id for cell in read(path).cells if cell.get("outputs") or cell.get("execution_count") is not None]
    assert kept == [], "run: python -m helpers.lessons strip"


def test_lint():
    ruff = shutil.which("ruff") or shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    done = subprocess.run([ruff, "check", "--no-cache", str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_executed_refuses_to_run_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_DEVICE", "cpu")
    command = [sys.executable, "-m", "helpers.lessons", "execute", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and "come from a GPU" in done.stderr
    assert list(tmp_path.iterdir()) == []
