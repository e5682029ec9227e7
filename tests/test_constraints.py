"""One file pins every package, those that others bring included, for each Python and system that we support."""

import importlib.metadata
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from helpers.machine import ROOT

pytestmark = pytest.mark.no_gpu

CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
SYSTEMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
MACHINES = [
    {"sys_platform": system, "platform_machine": machine, "python_full_version": python}
    for system, machine in SYSTEMS
    for python in ("3.11.2", "3.11.9", "3.12.4", "3.13.1")
]


def direct():
    """The requirements that pyproject.toml names, the build's own included."""
    return sum(EXTRAS.values(), PROJECT["dependencies"] + PYPROJECT["build-system"]["requires"])


def constraints():
    return [Requirement(line.split("  #")[0]) for line in CONSTRAINTS.read_text().splitlines() if line[0] != "#"]


def pins(machine):
    """The constraints that hold on a machine, as name -> version. No name has two."""
    found = {}
    for line in constraints():
        if line.marker is None or line.marker.evaluate(machine):
            assert line.name not in found, f"two releases of {line.name} for {machine}"
            found[line.name] = next(iter(line.specifier)).version
    return found


def test_constraints_are_names_and_releases_only():
    """No index, no path, no URL, no extra: pip refuses an extra in a constraint."""
    lines = constraints()
    assert len(lines) > 100
    assert [str(line) for line in lines if line.url or line.extras or len(line.specifier) != 1] == []
    assert [str(line) for line in lines if next(iter(line.specifier)).operator != "=="] == []
    assert not re.search(r"^\s*-|://", CONSTRAINTS.read_text(), re.MULTILINE)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: "-".join(machine.values()))
def test_constraints_agree_with_pyproject_on_every_machine(machine):
    pinned = pins(machine)
    for wanted in map(Requirement, direct()):
        if wanted.marker is None or wanted.marker.evaluate(machine):
            name = canonicalize_name(wanted.name)
            assert name in pinned and wanted.specifier.contains(pinned[name]), f"{wanted}: run make constraints"
    assert ("nvidia-cublas" in pinned) == (machine["sys_platform"] == "linux")  # what torch's CUDA build takes


def test_both_builds_of_torch_meet_the_constraints():
    torch = next(line for line in constraints() if line.name == "torch")
    version = next(iter(torch.specifier)).version
    assert all(torch.specifier.contains(version + build) for build in ("", "+cpu", "+cu130"))


def drift(requirements, pinned):
    """Where what is installed for some requirements, and for theirs in turn, is not what is pinned: sentences."""
    said, seen, todo = {}, set(), [Requirement(line) for line in requirements]
    while todo:
        wanted = todo.pop()
        name, extras = canonicalize_name(wanted.name), {"", *wanted.extras}
        if (name, *sorted(extras)) in seen:
            continue
        seen.add((name, *sorted(extras)))
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            said[name] = f"{name} is not installed, but {pinned.get(name, 'no release')} is pinned"
            continue
        if name not in pinned:
            said[name] = f"{name} {installed.version} is installed, but not pinned"
        elif Version(installed.version).public != str(Version(pinned[name])):
            said[name] = f"{name} {installed.version} is installed, but {pinned[name]} is pinned"
        todo += [
            line
            for line in map(Requirement, installed.requires or ())
            if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in extras)
        ]
    return [said[name] for name in sorted(said)]


def test_what_is_installed_is_what_the_constraints_say():
    """In the .venv that `make install` made from them. Another Python may have other releases, and says so itself."""
    made_from = ROOT / ".venv" / ".installed"
    if sys.prefix != str(ROOT / ".venv") or not made_from.exists() or not made_from.read_text():
        pytest.skip("this Python was not installed from .ci/constraints.txt")
    wanted = [line for line in map(Requirement, direct()) if line.marker is None or line.marker.evaluate()]
    not_for_everyone = EXTRAS["zig"] + PYPROJECT["build-system"]["requires"]
    wanted = [str(line) for line in wanted if str(line) not in not_for_everyone]
    assert drift(wanted, pins({})) == [], "it has drifted: rm -r .venv. Or pyproject.toml has changed: make constraints"


def test_drift_is_named():
    """pluggy is pytest's: whatever a requirement brings counts as well. A local version, as of torch+cpu, doesn't."""
    names = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
    now = {name: importlib.metadata.version(name) for name in names}
    assert drift(["pytest"], now) == []
    assert drift(["pytest"], now | {"pluggy": "0.1"}) == [f"pluggy {now['pluggy']} is installed, but 0.1 is pinned"]
    del now["iniconfig"]
    assert [line.split()[0] for line in drift(["pytest"], now)] == ["iniconfig"]
    assert drift(["no-such-package"], {"no-such-package": "1"}) == ["no-such-package is not installed, but 1 is pinned"]
