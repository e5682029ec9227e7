"""Everything that a lesson or README names has type hints and a docstring: a reader meets it by Shift-Tab."""

import ast
import importlib
import inspect
import re

import pytest

from helpers.lessons import files
from helpers.machine import ROOT

pytestmark = pytest.mark.no_gpu


def is_module(dotted):
    path = ROOT / dotted.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def named_in(source):
    """("module", "name") of all below helpers that Python code imports, or reads as an attribute of a module."""
    found, modules = set(), {}
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or "helpers"] = alias.name if alias.asname else "helpers"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "helpers":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if is_module(whole):
                    modules[alias.asname or alias.name] = whole
                else:
                    found.add((node.module, alias.name))
    for node in nodes:
        if isinstance(node, ast.Attribute):
            first, *rest = ast.unparse(node.value).split(".")
            module = ".".join((modules.get(first, ""), *rest))
            if module.startswith("helpers") and is_module(module) and not is_module(f"{module}.{node.attr}"):
                found.add((module, node.attr))
    return found


def named_in_lessons():
    found = set()
    for path in files.lessons():
        found |= named_in("\n".join(cell.source for cell in files.read(path).cells if cell.cell_type == "code"))
    return found


def named_in_readme():
    return set(re.findall(r"`(helpers(?:\.\w+)*)\.(\w+)\(", (ROOT / "README.md").read_text()))


@pytest.mark.parametrize(("module", "name"), sorted(named_in_lessons() | named_in_readme()))
def test_it_has_hints_and_a_docstring(module, name):
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing):
        assert thing.__doc__ and not thing.__doc__.startswith(f"{name}("), "its docstring says what it is"
        return
    if not callable(thing):
        return
    thing = inspect.unwrap(thing)
    assert thing.__doc__, "a docstring says what it does"
    signature = inspect.signature(thing)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
    assert bare == [] and signature.return_annotation is not signature.empty, f"no hints: {bare or 'return'}"


def test_every_way_to_name_a_thing_is_seen():
    """Red if the search misses one, so that a bare signature could hide behind it."""
    source = """
import torch, helpers
import helpers.bench.tables as tables
from helpers import device, proof
from helpers.exercises import topk as exercises

def later():
    from helpers.arrays.inputs import scores as drawn
    return drawn(exercises.all_selected, tables.one), torch.zeros(helpers.launch)

proof.reference.relative_error
"""
    assert named_in(source) == {
        ("helpers", "device"),
        ("helpers", "launch"),
        ("helpers.arrays.inputs", "scores"),
        ("helpers.bench.tables", "one"),
        ("helpers.exercises.topk", "all_selected"),
        ("helpers.proof.reference", "relative_error"),
    }


def test_the_lessons_and_the_readme_are_searched():
    assert {("helpers", "topk_transform"), ("helpers.lessons", "banner")} <= named_in_lessons()
    assert ("helpers", "store_cache") in named_in_readme()
