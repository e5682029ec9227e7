"""One run of a tool on a program: a child with a time limit, its text, where it ran; and its stored form."""

import datetime
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from helpers import cpu
from helpers.kernel import KERNELS
from helpers.machine import ROOT, driver_version
from helpers.processes import run_supervised

from .reports import Finding, coredump_findings, gdb_findings, sanitizer_count, sanitizer_findings

TRANSCRIPTS = Path(__file__).resolve().parent / "transcripts"
# Compute-sanitizer needs a program without a memory pool: in one big allocation nobody sees where an array ends.
NO_POOL = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# API errors are left out: torch's own probing of the driver makes some. Few reports: each is like the next.
SANITIZER_OPTIONS = ("--report-api-errors", "no", "--show-backtrace", "device", "--print-limit", "4")
_READERS = {"compute-sanitizer": sanitizer_findings, "cuda-gdb": coredump_findings, "gdb": gdb_findings}


@dataclass(frozen=True)
class ToolRun:
    """What a tool said.

    tool: "compute-sanitizer", "cuda-gdb", "gdb" or "" (the bare program). command: as one would type it.
    status: "finished", "timed out", or "absent" (never run: then `text` says why). text: what it printed.
    seconds: wall time. device, date: where and when. stored: read from a file, not run just now.
    sources: what stood at the lines that it names when it ran, as {"file:line": text}. code: a hash of the programs.
    """

    name: str
    tool: str
    command: str
    status: str
    text: str
    seconds: float = 0.0
    device: str = ""
    date: str = ""
    code: str = ""
    stored: bool = False
    sources: dict = field(default_factory=dict)

    def __bool__(self):
        """Whether there is any evidence."""
        return self.status != "absent"

    @property
    def fresh(self) -> bool:
        """Whether there is evidence, and made from the kernels and cases as they are now."""
        return bool(self) and self.code == code_hash()

    @property
    def findings(self) -> list[Finding]:
        """List of Finding, empty if the tool is silent."""
        return _READERS[self.tool](self.text) if self and self.tool else []

    @property
    def count(self) -> int | None:
        """Errors or hazards that compute-sanitizer counts; None if it never got there."""
        return sanitizer_count(self.text)

    def code_of(self, finding: Finding) -> list[str]:
        """The source lines that a finding names, as they were when the tool ran."""
        return [self.sources.get(f"{finding.file}:{line}", "") for line in finding.lines]

    @property
    def heading(self) -> str:
        """Where and when it ran and the command, or that it did not run and why."""
        if not self:
            return f"[not run] {self.name}: {self.text}"
        where = f"stored, {self.date}, {self.device}" if self.stored else f"live, {self.device}"
        return f"[{where}] $ {self.command}"

    def show(self, most_lines: int = 16, containing: str = "") -> None:
        """Print the heading and the text, cut after so many lines. containing: only lines in which this occurs."""
        lines = [line for line in self.text.splitlines() if containing in line] if self else []
        print(self.heading)
        for line in lines[:most_lines]:
            print(line if len(line) <= 118 else line[:115] + "...")
        if len(lines) > most_lines:
            print(f"... and {len(lines) - most_lines} more lines")


@functools.cache
def device_name(where: str) -> str:
    """The GPU with its CUDA and driver for "cuda", "CPU" for "cpu"."""
    if where == "cpu":
        return "CPU"
    return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, driver {driver_version() or 'unknown'}"


@functools.cache
def code_hash() -> str:
    """SHA-256 over the cases, the kernels they run, and the canaries: a transcript made from others is stale."""
    digest = hashlib.sha256()
    kernels = [KERNELS / name for name in ("topk_transform.cu", "sparse_attention.cu", "leave_in_shared.cu")]
    files = [*kernels, *(ROOT / "tests" / "canaries").glob("*.cu"), Path(__file__).with_name("cases.py")]
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def run_limited(command: Sequence[str], environment: Mapping[str, str], limit: float) -> tuple[str, str, float]:
    """(status, output, seconds) of a command. Past `limit` seconds it is killed with all that it started."""
    ended = run_supervised(
        command, limit, env=os.environ | environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    return "timed out" if ended.status is None else "finished", ended.stdout, ended.seconds


def tidy(text: str) -> str:
    """The text without this machine's paths, frames of Python and empty report lines."""
    for folder, name in ((f"{ROOT}/", ""), (f"{sys.prefix}/", ""), (f"{Path.home()}/", "~/")):
        text = text.replace(folder, name) if len(folder) > 2 else text
    text = re.sub(r"~?(?:/[\w.+-]+)+/(?=[\w.+-]+\.(?:so|cubin|hpp|h|py|cu)\b)", "", text)
    noise = r"=========\s*$|Traceback \(most recent|  File |    [\w^~]|warning: |\[(?:New|Detach)|.*libthread_db"
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip() and not re.match(noise, line))


def run_tool(name: str, tool: str, command: Sequence[str], shown: str, environment: Mapping[str, str], limit: float,
             where: str = "cuda") -> ToolRun:  # fmt: skip
    """Run a command and return its ToolRun. shown: the command as a reader would type it. where: "cuda" or "cpu"."""
    status, output, seconds = run_limited(command, environment, limit)
    text = tidy(output) + (f"\nkilled after {limit} s" if status == "timed out" else "")
    today = datetime.date.today().isoformat()
    run = ToolRun(name, tool, shown, status, text, round(seconds, 1), device_name(where), today, code_hash())
    run.sources.update(_sources(run.findings))
    return run


def source_line(file: str | Path, number: int) -> str:
    """The text of a line in kernels/. A spliced source is called inline.cu; its lines are those of the top-k."""
    path = KERNELS / Path(file).name.replace("inline.cu", "topk_transform.cu")
    lines = path.read_text().splitlines() if path.is_file() else []
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _sources(findings):
    places = [(finding.file, number) for finding in findings for number in finding.lines]
    return {f"{file}:{number}": source_line(file, number) for file, number in places}


def under(mode: str, case: Callable[[str], object]) -> cpu.KernelFault | None:
    """Run a case on the CPU build in a mode and print what that says.

    Returns the KernelFault that the case ends in; None if it ends well, or where the mode's compiler is missing.
    """
    reason = cpu.missing_modes().get(mode)
    if reason:
        print(f"[not run] mode {mode} needs {reason}")
        return None
    print(f"[live, CPU, mode {mode}] {case.__name__}")
    try:
        with cpu.mode(mode):
            case("cpu")
    except cpu.KernelFault as fault:
        print(tidy(str(fault)))
        if fault.line:
            print(f"  {Path(fault.file).name}:{fault.line}  {source_line(fault.file, fault.line)}")
        return fault
    print("nothing to report")
    return None


def absent(name: str, reason: str) -> ToolRun:
    """The ToolRun of an experiment that wasn't run."""
    return ToolRun(name, "", "", "absent", reason, code=code_hash())


def store(run: ToolRun, folder: Path) -> None:
    """Write a ToolRun as folder/NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = {key: value for key, value in asdict(run).items() if key != "stored"}
    fields["text"] = run.text.splitlines()
    (folder / f"{run.name}.json").write_text(json.dumps(fields, indent=1) + "\n")


def load(name: str, folder: Path = TRANSCRIPTS) -> ToolRun | None:
    """The stored ToolRun of that name, or None."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    fields = json.loads(path.read_text())
    fields["text"] = "\n".join(fields["text"])
    return ToolRun(**fields, stored=True)
