"""The form of a lesson: each rule in one sentence, and the places where a notebook breaks it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .files import GPU_NOTE, minutes, tags

if TYPE_CHECKING:
    from nbformat import NotebookNode

PLAIN_SECTIONS = ("You will", "Recap", "Upstream", "Glossary")
FORBIDDEN = r"^\s*[!%]|pip install|\burlopen\b|\brequests\.|\bwget\b|\bcurl\b"
ABSOLUTE_PATH = r"""["'](?:~?/\w|[A-Z]:\\)"""


def faults(notebook: NotebookNode) -> list[str]:
    """Every rule that the notebook breaks, as "the rule (where)". An empty list: its form is right."""
    return [fault for rule in RULES for fault in rule(notebook)]


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _prose(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def section(notebook: NotebookNode, name: str) -> str:
    """The prose of one `## name` section; "" if there is none."""
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", _prose(notebook), re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def _items(text):
    return len(re.findall(r"^(?:[-*]|\d+\.) ", text, re.MULTILINE))


def _opening(notebook):
    first = notebook.cells[0]
    if not re.match(r"# .+\n\n\S.+[.?!]$", first.source, re.MULTILINE):
        yield f"A lesson opens with `# title`, an empty line and one sentence (cell {first.id})."
    if not minutes(notebook):
        yield "The opening has a line `Time: 10 minutes alone, 15 in a workshop.`"
    if GPU_NOTE not in section(notebook, "You will") + first.source:
        yield f"The opening or `## You will` says: {GPU_NOTE}"
    if not 3 <= _items(section(notebook, "You will")) <= 4:
        yield f"`## You will` lists 3 or 4 things that can be checked, not {_items(section(notebook, 'You will'))}."
    code = _code(notebook)[0]
    lines = [line for line in code.source.splitlines() if line.strip()]
    if len(lines) > 12 or lines[-1] != "banner()":
        yield f"The first code cell has at most 12 lines, the last is `banner()` (cell {code.id}, {len(lines)} lines)."


def _memory(notebook):
    if not isinstance(notebook.metadata.get("memory_mib"), int):
        yield "The notebook's metadata entry `memory_mib` is an int: the MiB that the lesson takes, as a run measures."


def _ending(notebook):
    done, promised = _items(section(notebook, "Recap")), _items(section(notebook, "You will"))
    if done != promised:
        yield f"`## Recap` lists as many things as `## You will`: {promised}, not {done}."
    if "https://github.com/" not in section(notebook, "Upstream"):
        yield "`## Upstream` links where the bug or the idea comes from on GitHub."


def _section_minutes(notebook):
    names = re.findall(r"^## (.+)$", _prose(notebook), re.MULTILINE)
    for name in names:
        if name not in PLAIN_SECTIONS and not re.search(r"\(\d+ min\)$", name):
            yield f"A section's heading ends with its minutes, such as `(5 min)` (section {name!r})."
    if not set(names) - set(PLAIN_SECTIONS):
        yield "A lesson has sections of its own between `## You will` and `## Recap`."


def _size(notebook):
    if not 20 <= len(notebook.cells) <= 40:
        yield f"A lesson has 20 to 40 cells, not {len(notebook.cells)}."
    lengths = {cell.id: len(cell.source.splitlines()) for cell in _code(notebook)}
    for cell, length in lengths.items():
        if length > 25:
            yield f"A code cell has at most 25 lines (cell {cell}, {length} lines)."
    if statistics.median(lengths.values()) > 6:
        yield f"Half of the code cells have at most 6 lines; here the median is {statistics.median(lengths.values())}."
    lines = [line for cell in _code(notebook) for line in cell.source.splitlines() if line.strip()]
    comments = sum(line.strip().startswith("#") for line in lines)
    if comments >= 0.15 * len(lines):
        yield f"Fewer than 15 % of the code lines are comments: reasons go into Markdown ({comments} of {len(lines)})."


def _safe_cells(notebook):
    for cell in _code(notebook):
        if found := re.search(FORBIDDEN, cell.source, re.MULTILINE):
            yield f"No cell installs, downloads or calls the shell (cell {cell.id}: {found[0].strip()!r})."
        if re.search(ABSOLUTE_PATH, cell.source):
            yield f"No cell has an absolute path (cell {cell.id})."
        if hidden := {"raises-exception", "skip-execution"} & set(tags(cell)):
            yield f"No tag lets an exception pass for a success (cell {cell.id}: {hidden.pop()})."


def _claims(notebook):
    found = sum(cell.source.count("assert ") for cell in _code(notebook) if not tags(cell))
    if found < 3:
        yield f"A lesson asserts at least 3 of its claims in cells without a tag, not {found}."


def _cell_ids(notebook):
    ids = [cell.id for cell in notebook.cells]
    for twice in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"Each cell has an id of its own (id {twice} stands twice)."


def _predictions(notebook):
    cells = _code(notebook)
    predictions = [i for i, cell in enumerate(cells) if "prediction" in tags(cell)]
    if not predictions:
        yield "A lesson asks for a prediction: a code cell with the tag `prediction`."
    for i in predictions:
        if "reveal(" in cells[i].source:
            yield f"A prediction is not compared in its own cell (cell {cells[i].id})."
        if not any("reveal(" in cell.source for cell in cells[i + 1 : i + 3]):
            yield f"One of the two code cells after a prediction compares it by `checks.reveal` (cell {cells[i].id})."


def _exercises(notebook):
    places: dict[str, dict[str, int]] = {"exercise": {}, "solution": {}}
    for i, cell in enumerate(notebook.cells):
        for tag in places.keys() & set(tags(cell)):
            name = cell.metadata.get("exercise")
            if name is None:
                yield f"A cell tagged `{tag}` names its checker in the metadata entry `exercise` (cell {cell.id})."
            elif name in places[tag]:
                yield f"An exercise has one cell tagged `{tag}` ({name} has another in cell {cell.id})."
            else:
                places[tag][name] = i
    if not places["exercise"]:
        yield "A lesson has an exercise: a code cell with the tag `exercise`."
    for name in sorted(places["exercise"].keys() ^ places["solution"].keys()):
        yield f"Each exercise has a solution, and each solution an exercise ({name} has one of the two)."
    for name in places["exercise"].keys() & places["solution"].keys():
        yield from _exercise(notebook, name, places["exercise"][name], places["solution"][name])


def _exercise(notebook, name, stub, solution):
    if stub > solution:
        yield f"The solution comes after its exercise ({name})."
    between = "\n".join(cell.source for cell in notebook.cells[stub + 1 : solution])
    if "<details>" not in between or "<summary>Hint 1</summary>" not in between:
        yield f"Between an exercise and its solution stands `<details><summary>Hint 1</summary>` ({name})."
    cell = notebook.cells[solution]
    if "hide-cell" not in tags(cell) or not (cell.metadata.get("jupyter") or {}).get("source_hidden"):
        yield f"A solution is collapsed: tag `hide-cell`, metadata `jupyter.source_hidden` true (cell {cell.id})."
    for place, strict in ((stub, False), (solution, True)):
        cell = notebook.cells[place]
        if f"{name}(" not in cell.source or ("strict=True" in cell.source) is not strict:
            how = "with strict=True" if strict else "without strict=True"
            yield f"The cell calls its checker {how} (cell {cell.id}, checker {name})."


def _figures(notebook):
    source = "\n".join(cell.source for cell in _code(notebook))
    if "plt.show(" in source or source.count("subplots(") > source.count("show("):
        yield "Each figure goes through `figures.show`, which gives it its caption and alt text."


RULES: tuple[Callable[..., Iterator[str]], ...] = (
    _opening, _memory, _ending, _section_minutes, _size, _safe_cells, _claims, _cell_ids, _predictions, _exercises,
    _figures,
)  # fmt: skip
