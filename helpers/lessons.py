"""The lessons as files: list, hash, run, and the copies with outputs that a GPU machine makes.

    python -m helpers.lessons execute --output DIR [NAME ...]
                                                     run every lesson, or those named, on a GPU; write copies
                                                     that say where
    python -m helpers.lessons strip                  remove outputs from the lessons (they are kept without)
    python -m helpers.lessons map                    bring the map of the lessons in README.md up to date

A cell tagged `solution` is the solved twin of the cell tagged `exercise` with the same `exercise` metadata.
"""

from __future__ import annotations

import argparse
import base64
import copy
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch

from helpers import checks, lesson_memory
from helpers.doctor import compiler, cuda_majors, driver_version, versions
from helpers.kernel import device

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
EXECUTED = NOTEBOOKS / "executed"
# Figures that README.md shows: the lesson, the id of its cell, the file beside the executed copies.
PICTURES = (
    ("12_nan_contamination", "flow", "nan_from_slot_0.png"),
    ("21_unwritten_slots", "pasts-figure", "unwritten_slots.png"),
)
GPU_NOTE = "GPU: optional. Without one, the same kernels run on the CPU."


def lessons() -> list[Path]:
    """The notebooks of the collection, in reading order."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def read(path: Path):
    """The notebook at path, as nbformat's NotebookNode."""
    import nbformat

    return nbformat.read(path, as_version=4)


def tags(cell) -> list[str]:
    return cell.metadata.get("tags", [])


# ---------------------------------------------------------------- what a copy was made from


def cells_hash(notebook) -> str:
    """SHA-256 of the kinds and sources of a notebook's cells. Outputs and metadata don't count."""
    return _sha256(json.dumps([[cell.cell_type, cell.source] for cell in notebook.cells]).encode())


def code_hash() -> str:
    """SHA-256 of the names and contents of every source file in kernels/ and helpers/."""
    digest = hashlib.sha256()
    for folder in ("kernels", "helpers"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cu", ".cuh", ".h", ".cpp", ".py"):
                digest.update(f"{path.relative_to(ROOT).as_posix()}\0{_sha256(path.read_bytes())}\n".encode())
    return digest.hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def provenance(notebook) -> dict[str, str]:
    """Where an executed copy of a lesson comes from. RuntimeError without a usable GPU."""
    if device() != "cuda":
        raise RuntimeError("executed copies come from a GPU; this run has none (helpers.device() is 'cpu')")
    return {
        **versions(),
        "gpu": torch.cuda.get_device_name(),
        "driver": driver_version() or "unknown",
        "date": datetime.date.today().isoformat(),
        "cells": cells_hash(notebook),
        "code": code_hash(),
    }


def copy_state(lesson: Path, executed: Path = EXECUTED) -> str:
    """Say if the executed copy is "missing", "stale" (cells, kernels/ or helpers/ changed since) or "fresh"."""
    path = executed / lesson.name
    if not path.exists():
        return "missing"
    made_from = read(path).metadata.get("provenance", {})
    now = (cells_hash(read(lesson)), code_hash())
    return "fresh" if (made_from.get("cells"), made_from.get("code")) == now else "stale"


# ---------------------------------------------------------------- this machine


def banner() -> None:
    """Print what the kernels of this notebook run on, and what to do where something is missing."""
    have = versions()
    if device() == "cuda":
        name = torch.cuda.get_device_name()
        print(f"Kernels run on: {name} (CUDA {have['cuda']}), compiled by CuPy's NVRTC.")
    else:
        print(f"Kernels run on: the CPU, compiled by {compiler() or 'nothing yet: please install g++'}.")
        print("No GPU is in use. Every cell works; only times say nothing about a GPU.")
    print(f"Python {have['python']}, torch {have['torch']}, CuPy {have['cupy']}.")
    ours, cupys = cuda_majors()
    if ours and cupys and ours != cupys:
        print(f"WARNING: torch uses CUDA {ours} and CuPy CUDA {cupys}. Install cupy-cuda{ours}x instead.")
    if too_little := lesson_memory.warning():
        print(too_little)


def excerpt(kernel: str, first: str, last: str | None = None) -> None:
    """Print the decisive lines of a kernel with their line numbers.

    kernel: a file in kernels/. From the first line that contains `first` to the next that contains `last`; without
    `last`, that one line. ValueError if there is no such line, so that a lesson cannot show what is not there.
    """
    lines = (ROOT / "kernels" / kernel).read_text().splitlines()
    start = next((i for i, line in enumerate(lines) if first in line), None)
    if start is None:
        raise ValueError(f"no line of {kernel} contains {first!r}")
    stop = start if last is None else next((i for i in range(start, len(lines)) if last in lines[i]), None)
    if stop is None:
        raise ValueError(f"no line of {kernel} after {first!r} contains {last!r}")
    indent = min(len(line) - len(line.lstrip()) for line in lines[start : stop + 1] if line.strip())
    print(f"kernels/{kernel}")
    for number, line in enumerate(lines[start : stop + 1], start + 1):
        print(f"{number:4}  {line[indent:]}".rstrip())


# ---------------------------------------------------------------- what a lesson says of itself


def minutes(notebook) -> tuple[int, int] | None:
    """Minutes (alone, in a workshop) from the line `Time: 10 minutes alone, 15 in a workshop.`, or None."""
    found = re.search(r"Time: (\d+) minutes alone, (\d+) in a workshop\.", _opening(notebook))
    return (int(found[1]), int(found[2])) if found else None


def title(notebook) -> str:
    """The text of a notebook's first heading."""
    return re.search(r"^# (.+)$", _opening(notebook), re.MULTILINE)[1]


def _opening(notebook) -> str:
    first_code = next(i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    return "\n\n".join(cell.source for cell in notebook.cells[:first_code])


def sentence(notebook) -> str:
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


# ---------------------------------------------------------------- running


def unsolved(notebook):
    """A copy of the notebook as a reader first meets it: without the solution cells."""
    return _without(notebook, "solution")


def solved(notebook):
    """A copy of the notebook in which the solution stands in the place of each exercise."""
    return _without(notebook, "exercise")


def _without(notebook, tag: str):
    result = copy.deepcopy(notebook)
    result.cells = [cell for cell in result.cells if tag not in tags(cell)]
    return result


def run(notebook, *, device: str | None = None, timeout: int = 180, allow_errors: bool = False):
    """Run a notebook in a new kernel, in notebooks/, and return it with outputs (it is changed in place).

    device: "cpu" or "cuda" for its kernels, None to let it choose. timeout: seconds a cell.
    The first cell that raises raises nbclient's CellExecutionError here, unless allow_errors.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook, timeout=timeout, allow_errors=allow_errors, record_timing=False,
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )  # fmt: skip
    environment = os.environ | ({"KERNEL_DEVICE": device} if device else {})
    return client.execute(env=environment)


def has_error(notebook) -> bool:
    """Whether any output of the notebook is an exception."""
    return any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


def execute(output: Path, names: list[str]) -> int:
    """Run the named lessons (none: all) on the GPU and write copies with provenance. Returns how many hold an error.

    ValueError for a name that is no lesson's.
    """
    import nbformat

    chosen = [path for path in lessons() if not names or path.stem in names]
    if unknown := set(names) - {path.stem for path in chosen}:
        raise ValueError(f"there is no lesson {', '.join(sorted(unknown))}")
    made_from = {path: provenance(read(path)) for path in chosen}
    output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for path, origin in made_from.items():
        print(f"{path.name} ...", end=" ", flush=True)
        start = time.perf_counter()
        notebook = run(read(path), allow_errors=True)
        notebook.metadata["provenance"] = origin
        relink(notebook)
        nbformat.write(notebook, output / path.name)
        for _, cell_id, name in (picture for picture in PICTURES if picture[0] == path.stem):
            (output / name).write_bytes(_picture_of(notebook, cell_id))
        failed += has_error(notebook)
        note = "  holds an error" if has_error(notebook) else ""
        print(f"{time.perf_counter() - start:.1f} s{note}", flush=True)
    return failed


def relink(notebook) -> None:
    """Point the relative links of a copy, which lies one folder deeper than its lesson, to where the lesson's point."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?=\.\./|\d\d_\w+\.ipynb)", "](../", cell.source)


def _picture_of(notebook, cell_id: str) -> bytes:
    """The PNG that the cell with this id displayed. StopIteration if there is none."""
    outputs = next(cell for cell in notebook.cells if cell.id == cell_id).outputs
    return base64.b64decode(next(o.data["image/png"] for o in outputs if "image/png" in o.get("data", {})))


def strip() -> int:
    """Remove outputs, counts and editor metadata from the lessons with nbstripout; cell ids stay."""
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--extra-keys", "metadata.language_info"]
    return subprocess.run(command + [str(path) for path in lessons()], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m helpers.lessons", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run_all = commands.add_parser("execute")
    run_all.add_argument("--output", type=Path, required=True)
    run_all.add_argument("names", nargs="*", metavar="NAME")
    commands.add_parser("strip")
    commands.add_parser("map")
    arguments = parser.parse_args()
    if arguments.command == "strip":
        return strip()
    if arguments.command == "map":
        readme = ROOT / "README.md"
        readme.write_text(with_map(readme.read_text()))
        return 0
    try:
        return min(execute(arguments.output, arguments.names), 1)
    except (RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
