"""Everything that a lesson or README names has type hints and a docstring: a reader meets it by Shift-Tab."""

import ast
import importlib
import inspect
import re

import pytest

from helpers.lessons import files
from helpers.machine import ROOT

pytestmark = pytest.mark.no_gpu


def named_in(source, found):
    """Add to `found` each ("module", "name") below helpers that Python code imports or reads as an attribute."""
    tree = ast.parse(source)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "helpers":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if is_module(whole):
                    modules[alias.asname or alias.name] = whole
                else:
                    found.add((node.module, alias.name))
    return modules


def is_module(dotted):
    path = ROOT / dotted.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def public_names():
    found = set()
    for path in files.lessons():
        modules, code = {}, [cell.source for cell in files.read(path).cells if cell.cell_type == "code"]
        for source in code:
            modules |= named_in(source, found)
        for source in code:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                    found.add((modules[node.value.id], node.attr))
    for module, name in re.findall(r"`(helpers(?:\.\w+)*)\.(\w+)\(", (ROOT / "README.md").read_text()):
        found.add((module, name))
    return sorted(found)


@pytest.mark.parametrize(("module", "name"), public_names())
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
