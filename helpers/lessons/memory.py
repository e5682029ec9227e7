"""How much memory a lesson takes, how much is free here, and a line where that is too little.

Each notebook's metadata state `memory_mib`: the most that its kernel and its child processes hold at one time without a
GPU, with the CPU build of torch, as measured, and a margin of about a third. tests/lessons/test_lessons.py measures
every lesson against it.
"""

import json
import os
from pathlib import Path

import psutil

from .files import NOTEBOOKS

MIB = 2**20
# Files of a control group, version 2 and 1: the limit, what is used, and the part of that which can always be dropped.
GROUPS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def stated(notebook: str | Path | None = None) -> int:
    """MiB that a lesson takes; without a name, or for one that is no lesson's, what the largest takes.

    notebook: its path or file name.
    """
    lessons = {path.name: path for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")}
    name = Path(notebook or "").name
    chosen = [lessons[name]] if name in lessons else lessons.values()
    return max(json.loads(path.read_text())["metadata"]["memory_mib"] for path in chosen)


def free(root: str | Path = Path("/")) -> int:
    """MiB that processes can still take: of the machine, and of the control group (a container) that this one is in."""
    bytes_free = [psutil.virtual_memory().available, *_free_in_groups(Path(root))]
    return min(bytes_free) // MIB


def _free_in_groups(root):
    """Bytes left in each control group around this process that has a limit. None of them exists outside Linux."""
    try:
        memberships = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for controller, limit, used, droppable in GROUPS:
        base = root / "sys/fs/cgroup" / controller
        for _, controllers, path in (line.split(":", 2) for line in memberships):
            if controller not in controllers.split(","):
                continue
            inner = base / path.lstrip("/")
            for folder in (inner, *inner.parents):
                if folder.is_relative_to(base) and (folder / limit).is_file():
                    most, now = (folder / limit).read_text().strip(), int((folder / used).read_text())
                    counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                    if most != "max":
                        yield max(0, int(most) - now + int(counts[droppable]))


def warning() -> str:
    """A line for the reader where this notebook may need more memory than is free, else ""."""
    notebook = os.environ.get("JPY_SESSION_NAME")  # Jupyter's server says which notebook a kernel was started for
    needed, here = stated(notebook), free() + psutil.Process().memory_info().rss // MIB
    if here >= needed:
        return ""
    return (
        f"WARNING: this lesson may take {needed} MiB of memory, and {here} MiB are there for it. "
        "Close other notebooks' kernels or programs first, or a cell may be killed."
    )
