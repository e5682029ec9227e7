"""From the text of NVIDIA's tools, and of gdb, to Findings: what was found, in which kernel, at which line, by whom."""

import re
from dataclasses import dataclass
from pathlib import Path

_ACCESS = re.compile(r"\b(?:at|access at)\s+(?P<kernel>.*?)\+0x[0-9a-f]+(?:\s+in\s+(?P<file>\S+?):(?P<line>\d+))?")
_FRAME = re.compile(r"Device Frame:\s*(?P<kernel>.*?)\+0x[0-9a-f]+(?:\s+in\s+(?P<file>\S+?):(?P<line>\d+))?")
_PLACE = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) errors?$|RACECHECK SUMMARY: (\d+) hazards?)", re.MULTILINE)
_FOCUS = re.compile(r"block \((\d+),(\d+),(\d+)\), thread \((\d+),(\d+),(\d+)\)")


@dataclass(frozen=True)
class Finding:
    """One thing that a tool reports. kernel: its bare name. lines: in the kernel's source, the first is the access
    itself. thread, block: (x, y, z). instruction: as disassembled. Whatever the tool leaves unsaid is empty or None."""

    kind: str
    kernel: str = ""
    file: str = ""
    lines: tuple = ()
    thread: tuple | None = None
    block: tuple | None = None
    instruction: str = ""

    def __str__(self):
        where = f" in {self.kernel}" if self.kernel else ""
        where += f", {self.file}:{' and '.join(map(str, self.lines))}" if self.lines else ""
        where += f", block {self.block}, thread {self.thread}" if self.thread else ""
        return self.kind + where + (f", at {self.instruction}" if self.instruction else "")


def bare_name(signature: str) -> str:
    """"topk_transform" of "void topk_transform<(Overflow)0, 1024, 12>(const float *, ...)"."""
    found = re.search(r"([A-Za-z_]\w*)\s*(?:[<(]|$)", re.sub(r"^(?:void|inline|static)\s+", "", signature.strip()))
    return found[1] if found else ""


def sanitizer_findings(text: str) -> list[Finding]:
    """Findings of a compute-sanitizer report, in its order; messages about API calls and the program are left out."""
    findings, lines = [], []
    for line in [*(line[9:] for line in text.splitlines() if line.startswith("=========")), " x"]:
        if re.match(r" {2,}\S| and ", line) and lines:
            lines.append(line.strip())
            continue
        findings += _sanitizer_finding(lines)
        lines = [line.strip()]
    return findings


def _sanitizer_finding(lines):
    """[Finding], or [] for what is none. A headline and the lines that belong to it, wrapped or not."""
    text = " ".join(lines)
    headline = re.match(
        r"(Invalid|Misaligned|Uninitialized|Barrier error|Error: Race|Warning: Race|Error: Potential)", text, re.I
    )
    accesses = [match.groupdict() for match in [*_ACCESS.finditer(text), *_FRAME.finditer(text)]]
    if not headline or not accesses:
        return []
    # An intrinsic such as __syncwarp is a function in a header of CUDA's own; its caller is a frame further down.
    own = [access for access in accesses if access["file"] and re.search(r"\.cuh?$", access["file"])] or accesses
    place = _PLACE.search(text)
    numbers = tuple(map(int, place.groups())) if place else None
    kind = re.split(r"\s+at\s|\s+between\s", lines[0])[0].removeprefix("Error: ").rstrip(". ")
    return [
        Finding(
            kind, bare_name(own[0]["kernel"]), Path(own[0]["file"] or "").name,
            tuple(dict.fromkeys(int(access["line"]) for access in own if access["line"])),
            numbers and numbers[:3], numbers and numbers[3:],
        )
    ]  # fmt: skip


def sanitizer_count(text: str) -> int | None:
    """How many errors or hazards a compute-sanitizer run counts in its last line; None if it never got there."""
    counts = [int(errors or hazards) for errors, hazards in _SUMMARY.findall(text)]
    return counts[-1] if counts else None


def coredump_findings(text: str) -> list[Finding]:
    """[Finding] of a GPU coredump that cuda-gdb opened, or []."""
    exception = re.search(r"CUDA Exception: (.+)", text)
    if not exception:
        return []
    focus = _FOCUS.search(text)
    numbers = tuple(map(int, focus.groups())) if focus else None
    frame = re.search(r"^#0\s+(?:0x[0-9a-f]+ in )?(.+)", text, re.MULTILINE)
    line = re.search(r"([\w.]+\.cuh?):(\d+)", text)
    instruction = re.search(r"^\s*(?:\*?=>|\*>).*?>?:\s+(\S.*)$", text, re.MULTILINE)
    return [
        Finding(
            exception[1].strip().rstrip("."), bare_name(frame[1]) if frame else "",
            line[1] if line else "", (int(line[2]),) if line else (),
            numbers and numbers[3:], numbers and numbers[:3], instruction[1].strip() if instruction else "",
        )
    ]  # fmt: skip


def gdb_findings(text: str) -> list[Finding]:
    """[Finding] of a host program that gdb stopped inside a CUDA thread of the CPU build, or []."""
    signal = re.search(r"received signal (\w+)", text)
    frame = re.search(r"^#0\s+(?:0x[0-9a-f]+ in )?(.+?) \(.*?\) at (\S+):(\d+)", text, re.MULTILINE)
    if not signal or not frame:
        return []
    indices = [tuple(map(int, numbers)) for numbers in re.findall(r"= \{(\d+), (\d+), (\d+)\}", text)]
    instruction = re.search(r"^=> .*?>?:\s+(\S.*)$", text, re.MULTILINE)
    return [
        Finding(
            signal[1], bare_name(frame[1]), Path(frame[2]).name, (int(frame[3]),), *(indices + [None, None])[:2],
            re.sub(r"\s+", " ", instruction[1]) if instruction else "",
        )
    ]  # fmt: skip


def printed_rows(text: str) -> list[tuple[int, int]]:
    """[(above, in_bin)] of the lines that `report_rows` printed."""
    return [(int(a), int(b)) for a, b in re.findall(r"^row \d+: above (\d+), in bin (\d+)$", text, re.MULTILINE)]
