"""The canaries: one tiny kernel a defect, and which tool must catch it (tests/canaries/*.cu)."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from helpers import cpu
from helpers.kernel import compile_cuda, launch
from helpers.machine import ROOT

FOLDER = ROOT / "tests" / "canaries"
THREADS = 64


@dataclass(frozen=True)
class Canary:
    """A kernel with one defect.

    defect: in words. tool: what catches it: a mode of the CPU build, "scheduler" (in every mode), or "signature"
    (before the launch). kind: of the KernelFault, or the name of another exception. lines: the defective line, or
    the two that don't go together; none where the caller is at fault. With the macro FIXED the kernel is right.
    """

    path: Path
    defect: str
    tool: str
    kind: str
    lines: tuple

    @property
    def name(self) -> str:
        """Its file's name without the ending."""
        return self.path.stem

    @property
    def mode(self) -> str:
        """The mode to run it in."""
        return self.tool if self.tool in cpu.MODES else "fast"


def read_canary(path: str | Path) -> Canary:
    """The Canary in a file; its head comment says what it is, and `// HERE` marks the lines."""
    text = Path(path).read_text()
    defect = re.search(r"^// defect: (.*)$", text, re.MULTILINE)[1]
    tool, kind = re.search(r"^// caught by: (\w+), as (.*)$", text, re.MULTILINE).groups()
    lines = tuple(number for number, line in enumerate(text.splitlines(), 1) if line.endswith("// HERE"))
    return Canary(Path(path), defect, tool, kind, lines)


def all_canaries() -> list[Canary]:
    """Those of tests/canaries, by name."""
    return [read_canary(path) for path in sorted(FOLDER.glob("*.cu"))]


def release(canary: Canary, mode: str | None = None, order: str = "forward", seed: int = 0,
            fixed: bool = False) -> tuple[torch.Tensor, Exception | None]:  # fmt: skip
    """Launch a canary on the CPU, in its own mode or another one.

    Returns (output, fault): int32 [64], and the exception that it raised or None.
    """
    kernel = compile_cuda(canary.path, device="cpu", defines={"FIXED": 1} if fixed else None).get_function("canary")
    source, output = torch.arange(THREADS, dtype=torch.int32), torch.zeros(THREADS, dtype=torch.int32)
    if canary.name == "uninitialised_global":
        cpu.mark_uninitialised(source)
    length = np.int64(THREADS) if canary.name == "wide_scalar" and not fixed else np.int32(THREADS)
    with cpu.mode(mode or canary.mode, order=order, seed=seed):
        try:
            launch(kernel, 1, THREADS, (source, output, length))
        except (cpu.KernelFault, TypeError) as error:
            return output, error
    return output, None
