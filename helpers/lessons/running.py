"""Run a lesson in a kernel of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .files import NOTEBOOKS

if TYPE_CHECKING:
    from nbformat import NotebookNode


def run(notebook: NotebookNode, *, device: str | None = None, timeout: int = 180, allow_errors: bool = False,
        environment: dict[str, str] | None = None) -> NotebookNode:  # fmt: skip
    """Run a notebook in a new kernel, in notebooks/, and return it with outputs (it is changed in place).

    device: "cpu" or "cuda" for its kernels, None to let it choose. timeout: seconds a cell. environment: further
    variables of the kernel. The first cell that raises raises nbclient's CellExecutionError here, unless allow_errors.
    """
    from .kernels import LessonClient

    client = LessonClient(
        notebook, timeout=timeout, allow_errors=allow_errors, record_timing=False,
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )  # fmt: skip
    chosen = {"KERNEL_DEVICE": device} if device else {}
    return client.execute(env=os.environ | chosen | (environment or {}))
