"""The wings of helpers/: imports run downwards only, there is no circle, and signatures are of one style."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from helpers.machine import ROOT

pytestmark = pytest.mark.no_gpu

HELPERS = ROOT / "helpers"
# From the top floor down, as the package itself says. Its face, which hands out the operations, is no room.
WINGS = re.findall(r"^    (\w+) ", helpers.__doc__, re.MULTILINE)
MODULES = sorted(path for path in HELPERS.rglob("*.py") if path != HELPERS / "__init__.py")


def wing_of(path: Path) -> str:
    return path.relative_to(HELPERS).with_suffix("").parts[0]


def imports(path: Path) -> set[str]:
    """Names below helpers that a module imports anywhere, lazily too: "cpu.build" or "kernel"."""
    found = set()
    package = path.relative_to(HELPERS).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("helpers.") for alias in node.names if alias.name.startswith("helpers.")}
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = package[: len(package) - node.level + 1]
        elif node.module and node.module.split(".")[0] == "helpers":
            base = ()
        else:
            continue
        module = (node.module or "").removeprefix("helpers").strip(".")
        start = ".".join((*base, *filter(None, [module])))
        for alias in node.names:
            whole = ".".join(filter(None, (start, alias.name)))
            found.add(whole if is_module(whole) else start)
    return found


def is_module(dotted: str) -> bool:
    path = HELPERS / dotted.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_every_wing_is_on_the_list():
    assert {wing_of(path) for path in MODULES} == set(WINGS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(HELPERS).as_posix())
def test_imports_run_downwards(path):
    floor = WINGS.index(wing_of(path))
    upwards = {name for name in imports(path) if name and WINGS.index(name.split(".")[0]) < floor}
    assert upwards == set(), f"{path.relative_to(ROOT)} imports from a wing above its own"


def test_there_is_no_circle():
    dotted = (".".join(path.relative_to(HELPERS).with_suffix("").parts) for path in MODULES)
    names = {name.removesuffix(".__init__"): path for name, path in zip(dotted, MODULES, strict=True)}
    tied = {name: imports(path) & names.keys() - {name} for name, path in names.items()}
    while leaves := [name for name, below in tied.items() if not below]:
        for leaf in leaves:
            del tied[leaf]
        tied = {name: below - set(leaves) for name, below in tied.items()}
    assert tied == {}, "these modules import each other, or one that does"


def test_every_kind_of_import_is_seen(monkeypatch):
    """Red if the search misses one, so that an upward one could hide."""
    lines = ("from helpers.lessons import files", "import helpers.doctor", "from helpers import sweep",
             "from . import memory")  # fmt: skip
    source = "def f():\n" + "".join(f"    {line}\n" for line in lines)
    monkeypatch.setattr(Path, "read_text", lambda path: source)
    assert imports(HELPERS / "arrays" / "inputs.py") == {"lessons.files", "doctor", "sweep", "arrays.memory"}


@pytest.mark.parametrize("command", ("doctor", "sweep", "bench", "lessons", "tools"))
def test_each_command_says_what_it_does_and_costs(command):
    done = subprocess.run(
        [sys.executable, "-m", f"helpers.{command}", "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0 and f"python -m helpers.{command}" in done.stdout
    assert re.search(r"\b(minutes?|min|seconds?|s)\b", done.stdout), "how long it takes"


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """("Class.name" or "name", node) of every function of a module and of its classes, but of none in a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{inside}{node.name}", node
        else:
            yield from functions(node, f"{inside}{node.name}." if isinstance(node, ast.ClassDef) else inside)


def signature_faults(source: str) -> list[str]:
    """Public functions and methods have hints on everything and a docstring; those that begin with _ have no hints.
    The docstring of a `main` is its module's."""
    faults = []
    for name, node in functions(ast.parse(source)):
        given = node.args
        parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
        hinted = {parameter.arg for parameter in parameters if parameter.annotation}
        hinted |= {"return"} if node.returns else set()
        if node.name.startswith("__"):  # hints where a class is made by hand, as Shift-Tab shows them
            continue
        if node.name.startswith("_"):
            faults += [f"{name}: a hint on {what}, though the name is private" for what in sorted(hinted)]
            continue
        wanted = {parameter.arg for parameter in parameters} | {"return"}
        if "." in name and parameters and parameters[0].arg in ("self", "cls"):
            wanted.remove(parameters[0].arg)
        faults += [f"{name}: no hint on {what}" for what in sorted(wanted - hinted)]
        if not ast.get_docstring(node) and name != "main":
            faults.append(f"{name}: no docstring")
    return faults


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(HELPERS).as_posix())
def test_signatures_are_of_one_style(path):
    assert signature_faults(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("def f(a, /, b: int, *c, d: int, **e) -> int:\n  'Doc.'", ["no hint on a", "no hint on c", "no hint on e"]),
        ("def f(*, a):\n  'Doc.'", ["no hint on a", "no hint on return"]),
        ("def f() -> int: ...", ["no docstring"]),
        ("def f(self) -> int:\n  'Doc.'", ["no hint on self"]),
        ("async def f(a: int):\n  'Doc.'", ["no hint on return"]),
        ("if True:\n  def f(a) -> int:\n    'Doc.'", ["no hint on a"]),
        ("def _f(a: int, *b: int, c=1) -> int: ...", ["a hint on a", "a hint on b", "a hint on return"]),
        ("class _C:\n  def f(self, a): ...", ["no hint on a", "no hint on return", "no docstring"]),
        ("class C:\n  def __init__(self, a: int): ...", []),
        ("class C:\n  a: int\n  def f(self, a: int) -> int:\n    'Doc.'\n    def g(b): ...", []),
        ("def main(words: list[str]) -> int: ...", []),
        ("def main(words): ...", ["no hint on return", "no hint on words"]),
    ],
)
def test_every_fault_of_a_signature_is_seen(source, faults):
    found = [fault.partition(": ")[2].partition(",")[0] for fault in signature_faults(source)]
    assert found == faults
