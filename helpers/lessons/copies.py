"""The executed copies: lessons as a GPU ran them, each with where, when and from which files."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from helpers.kernel import device
from helpers.machine import driver_version, versions

from .files import NOTEBOOKS, has_error, lessons, read
from .running import run
from .used import hashes, listening

if TYPE_CHECKING:
    from nbformat import NotebookNode

EXECUTED = NOTEBOOKS / "executed"
# Figures that README.md shows: the lesson, the id of its cell, the file beside the executed copies.
PICTURES = (
    ("12_nan_contamination", "flow", "nan_from_slot_0.png"),
    ("21_unwritten_slots", "pasts-figure", "unwritten_slots.png"),
)


def cells_hash(notebook: NotebookNode) -> str:
    """SHA-256 of the kinds and sources of a notebook's cells. Outputs and metadata don't count."""
    return hashlib.sha256(json.dumps([[cell.cell_type, cell.source] for cell in notebook.cells]).encode()).hexdigest()


def why_stale(lesson: Path, executed: Path = EXECUTED) -> str:
    """Why the copy of a lesson is not what a run would give now, such as "kernels/exact_topk.cu has changed"; "" if
    it is fresh.

    A copy depends on its lesson's cells and on the files that its run read, as they were then.
    """
    path = executed / lesson.name
    if not path.exists():
        return "it is missing"
    made_from = read(path).metadata.get("provenance", {})
    if made_from.get("cells") != cells_hash(read(lesson)):
        return "its cells have changed"
    files = made_from.get("files", {})
    now = hashes(set(files))
    changed = [name for name in files if files[name] != now.get(name)]
    return f"{', '.join(changed[:3])}{' and others' * (len(changed) > 3)} changed since" if changed else ""


def provenance(notebook: NotebookNode, files: dict[str, str]) -> dict[str, object]:
    """Where an executed copy of a lesson comes from. files: what its run read, as `listening` has it."""
    return {
        **versions(),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver_version() or "unknown",
        "date": datetime.date.today().isoformat(),
        "cells": cells_hash(notebook),
        "files": files,
    }


def execute(output: Path, names: list[str], everything: bool = False) -> int:
    """Run lessons on the GPU and write copies with provenance. Returns how many hold an error.

    names: which; none: those whose copy in `output` is missing or stale, or all of them if `everything`.
    ValueError for a name that is no lesson's, RuntimeError without a usable GPU.
    """
    import nbformat

    if device() != "cuda":
        raise RuntimeError("executed copies come from a GPU; this run has none (helpers.device() is 'cpu')")
    if unknown := set(names) - {path.stem for path in lessons()}:
        raise ValueError(f"there is no lesson {', '.join(sorted(unknown))}")
    output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for path in lessons():
        reason = "asked for" if everything or path.stem in names else "" if names else why_stale(path, output)
        if not reason:
            continue
        print(f"{path.stem}: {reason} ...", end=" ", flush=True)
        start = time.perf_counter()
        with listening() as listener:
            named = {"JPY_SESSION_NAME": str(path)}  # as JupyterLab has it: no other lesson is asked for its memory
            notebook = run(read(path), allow_errors=True, environment=listener.environment | named)
        notebook.metadata["provenance"] = provenance(read(path), listener.files)
        relink(notebook)
        nbformat.write(notebook, output / path.name)
        for _, cell_id, name in (picture for picture in PICTURES if picture[0] == path.stem):
            (output / name).write_bytes(_picture_of(notebook, cell_id))
        failed += has_error(notebook)
        note = "  holds an error" if has_error(notebook) else ""
        print(f"{time.perf_counter() - start:.1f} s{note}", flush=True)
    return failed


def relink(notebook: NotebookNode) -> None:
    """Point the relative links of a copy, which lies one folder deeper than its lesson, to where the lesson's point."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?=\.\./|\d\d_\w+\.ipynb)", "](../", cell.source)


def _picture_of(notebook, cell_id):
    """The PNG that the cell with this id displayed. StopIteration if there is none."""
    outputs = next(cell for cell in notebook.cells if cell.id == cell_id).outputs
    return base64.b64decode(next(o.data["image/png"] for o in outputs if "image/png" in o.get("data", {})))
