"""Which files of the project a run really reads: modules, kernels, data, in every process that it starts.

Python tells an audit hook of each file that it opens, imports included, wherever in a function they stand. A run gets
the hook through `sitecustomize`, which every Python process imports when it starts, so its children have it too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from helpers.machine import ROOT

LEFT_OUT = ("notebooks/executed/", ".")  # what a run makes, and what is no part of the project: .venv, .git, caches

HOOK = """
import importlib.util, os, sys

def listen(root, log):
    seen = set()

    def hook(event, arguments):
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        path, mode, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[1], arguments[2] or 0
        if not path.startswith(root) or path in seen or (mode and mode[0] != "r") or flags & (os.O_WRONLY | os.O_RDWR):
            return
        seen.add(path)
        if path.endswith(".pyc"):  # a module from the bytecode cache was made from its source
            path = importlib.util.source_from_cache(path)
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, path.encode() + b"\\n")
        os.close(file)

    sys.addaudithook(hook)

listen(os.environ["LESSON_ROOT"], os.environ["LESSON_FILES"])
"""


@dataclass
class Listening:
    """environment: variables for the process to listen to. files: name in the project -> hash, once it has ended."""

    environment: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def listening(root: Path = ROOT) -> Iterator[Listening]:
    """Within: what runs with the `environment` that this gives is listened to. After: its `files` are known."""
    with tempfile.TemporaryDirectory(prefix="used-") as folder:
        Path(folder, "sitecustomize.py").write_text(HOOK)
        log = Path(folder, "files")
        log.touch()
        path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        listener = Listening({"PYTHONPATH": path, "LESSON_ROOT": f"{root}{os.sep}", "LESSON_FILES": str(log)})
        yield listener
        names = {Path(line).relative_to(root).as_posix() for line in log.read_text().splitlines()}
        listener.files.update(hashes({name for name in names if not name.startswith(LEFT_OUT)}, root))


def hashes(names: set[str], root: Path = ROOT) -> dict[str, str]:
    """name -> the start of its SHA-256, for those of the files that exist."""
    existing = [name for name in sorted(names) if (root / name).is_file()]
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest()[:16] for name in existing}
