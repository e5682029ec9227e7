"""The lessons as files: which there are, what each says of itself, the map of them."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.exercises import checks
from helpers.machine import ROOT

if TYPE_CHECKING:
    from nbformat import NotebookNode

NOTEBOOKS = ROOT / "notebooks"
GPU_NOTE = "GPU: optional. Without one, the same kernels run on the CPU."


def lessons() -> list[Path]:
    """The notebooks of the collection, in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def lesson(number: int) -> Path:
    """The notebook with this number. ValueError if there is none."""
    found = list(NOTEBOOKS.glob(f"{number:02}_*.ipynb"))
    if not found:
        raise ValueError(f"there is no lesson {number:02}")
    return found[0]


def read(path: Path) -> NotebookNode:
    """The notebook at path, as nbformat's NotebookNode."""
    import nbformat

    return nbformat.read(path, as_version=4)


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell, such as "exercise"; [] if it has none."""
    return cell.metadata.get("tags", [])


def minutes(notebook: NotebookNode) -> tuple[int, int] | None:
    """Minutes (alone, in a workshop) from the line `Time: 10 minutes alone, 15 in a workshop.`, or None."""
    found = re.search(r"Time: (\d+) minutes alone, (\d+) in a workshop\.", _opening(notebook))
    return (int(found[1]), int(found[2])) if found else None


def title(notebook: NotebookNode) -> str:
    """The text of a notebook's first heading."""
    return re.search(r"^# (.+)$", _opening(notebook), re.MULTILINE)[1]


def _opening(notebook):
    first_code = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    return "\n\n".join(cell.source for cell in notebook.cells[:first_code])


def sentence(notebook: NotebookNode) -> str:
    """The sentence under a notebook's title."""
    return re.search(r"^# .+\n+(.+)$", _opening(notebook), re.MULTILINE)[1]


def table(folder: str = "") -> str:
    """The lessons as a Markdown table; folder is put before each link ("notebooks/" in the README)."""
    rows = ["| lesson | what it is about | minutes alone / workshop |", "|---|---|---|"]
    for path in lessons():
        notebook = read(path)
        alone, workshop = minutes(notebook)
        link = f"[{path.stem[:2]} {title(notebook)}]({folder}{path.name})"
        rows.append(f"| {link} | {sentence(notebook)} | {alone} / {workshop} |")
    return "\n".join(rows)


def progress() -> str:
    """A Markdown list: how many exercises of each lesson this reader has solved on this machine."""
    solved_here = checks.solved_exercises()
    items = []
    for path in lessons():
        notebook = read(path)
        names = {cell.metadata.exercise for cell in notebook.cells if "exercise" in tags(cell)}
        items.append(
            f"- {path.stem[:2]} {title(notebook)}: {len(names & solved_here)} of {len(names)} exercises solved"
        )
    return "\n".join(items)


def with_map(text: str) -> str:
    """The text with a fresh table of the lessons between its two `lessons` comments."""
    before, _, rest = text.partition("<!-- lessons -->\n")
    _, _, after = rest.partition("<!-- end of lessons -->")
    return f"{before}<!-- lessons -->\n{table('notebooks/')}\n<!-- end of lessons -->{after}"


def unsolved(notebook: NotebookNode) -> NotebookNode:
    """A copy of the notebook as a reader first meets it: without the solution cells."""
    return _without(notebook, "solution")


def solved(notebook: NotebookNode) -> NotebookNode:
    """A copy of the notebook in which the solution stands in the place of each exercise."""
    return _without(notebook, "exercise")


def _without(notebook, tag):
    result = copy.deepcopy(notebook)
    result.cells = [cell for cell in result.cells if tag not in tags(cell)]
    return result


def has_error(notebook: NotebookNode) -> bool:
    """Whether any output of the notebook is an exception."""
    return any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


def strip() -> int:
    """Remove outputs, counts and editor metadata from the lessons with nbstripout; cell ids stay."""
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--extra-keys", "metadata.language_info"]
    return subprocess.run(command + [str(path) for path in lessons()], check=False).returncode
