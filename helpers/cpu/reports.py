"""From what a child process left behind to one KernelFault."""

import re
from typing import Any

from .faults import KernelFault
from .launch import fault_of
from .launch_file import LaunchFile

_KINDS = (
    (r"runtime error: .*misaligned address", "misaligned address"),
    (r"runtime error: index .* out of bounds", "out of bounds"),
    (r"runtime error: .*null pointer", "illegal address"),
    (r"runtime error: division by zero", "integer division by zero"),
    (r"runtime error: ", "undefined behaviour"),
    (r"MemorySanitizer: use-of-uninitialized-value", "uninitialised value"),
    (r"ThreadSanitizer: data race", "data race"),
    (r"Sanitizer: (?:use-after-poison|\w+-buffer-(?:over|under)flow|unknown-crash)", "out of bounds"),
    (r"Sanitizer: stack-overflow", "stack overflow"),
    (r"Sanitizer: (?:SEGV|BUS)", "illegal address"),
    (r"Sanitizer: ILL", "illegal instruction"),
    (r"Sanitizer: FPE", "integer division by zero"),
)
_SHARED_REDZONE = 16 * 1024  # as kRedzone in runtime/shared.cpp


def read_report(function: Any, file: LaunchFile, report: str, status: int) -> KernelFault | KeyboardInterrupt | None:
    """The KernelFault for a child that didn't finish its launch, or None.

    function: the HostFunction. file: the LaunchFile. report: the child's stderr. status: its exit status.
    """
    outcome = file.header.launch
    noted = outcome.fault.kind.decode()
    if status == 0 and not noted:
        return None
    if noted not in ("", "abort", "timeout", "uninitialised output"):  # the scheduler's own: complete as it is
        return fault_of(outcome, function.name)

    lines = _kernel_lines(report, function.module.source.name)
    place = fault_of(outcome, function.name) if noted in ("abort", "timeout") else None
    kind, message, argument = noted, "", None
    if noted == "uninitialised output":
        message, argument = _uninitialised_output(function, file)
    elif noted != "timeout":
        kind = next((kind for pattern, kind in _KINDS if re.search(pattern, report)), None)
        if kind is None:
            kind = "killed" if status < 0 else "abort"
            message = f"the child process ended with status {status} and {report.strip() or 'no report'}"
        elif "runtime error: " in report:
            message = re.search(r"runtime error: (.*)", report)[1]
        elif kind in ("out of bounds", "illegal address"):
            kind, message, argument = _bad_access(kind, function, file, report)
        elif kind == "data race":
            message = _race(report, lines)
    if kind.startswith("uninitialised"):
        message = "; ".join(filter(None, (message, _origin(report, function.module.source.name))))
    file_name, line = lines[0] if lines else (None, None)
    return KernelFault(
        kind,
        message,
        kernel=function.name,
        file=file_name,
        line=line,
        thread=place and place.thread,
        block=place and place.block,
        argument=argument,
        report=report,
    )


def _kernel_lines(report, source_name):
    """(file, line) of the kernel's own frames in a report: the innermost one of each stack, in the report's order."""
    found, stack_done = [], False
    for text in report.splitlines():
        is_frame = re.match(r"\s*#\d+ ", text)
        match = re.search(rf"({re.escape(source_name)}):(\d+)", text) or re.search(r"([^\s:]+\.cuh?):(\d+)", text)
        if match and not (is_frame and stack_done):
            found.append((match[1], int(match[2])))
        stack_done = bool(is_frame) and (stack_done or bool(match))
    return found


def _bad_access(kind, function, file, report):
    """(kind, message, name of the parameter) for a report that names an address."""
    access = re.search(r"\b(READ|WRITE) (?:of size (\d+)|memory access)", report)
    what = f"a {access[1].lower()}" if access else "an access"
    if access and access[2]:
        what += f" of {access[2]} bytes"
    address = re.search(r"(?:on|unknown) address (0x[0-9a-f]+)", report)
    if not address:
        return kind, what, None
    near = _nearest(function, file, int(address[1], 16))
    if not near:
        return kind, f"{what} at {address[1]}, far from every array", None
    where, name = near
    return "out of bounds", f"{what} {where}", name


def _nearest(function, file, address):
    """("4 bytes past the end of argument 1 (x)", "x") for an address of the child that lies near an array."""
    arrays = []  # (start, size, how far its surroundings reach, label, name of the parameter)
    for position, (region, offset, size) in file.reaches.items():
        place = file.header.regions[region]
        name = function.parameters[position] if position < len(function.parameters) else None
        arrays.append((place.address + offset, size, place.reserved // 2, function.parameter(position), name))
    for slot in file.header.launch.slots[: file.header.launch.slot_count]:
        name = slot.name.decode()
        label = name if name.startswith("dynamic") else f"__shared__ {name}"
        arrays.append((slot.address, slot.size, _SHARED_REDZONE, label, None))

    def distance(array):
        return max(array[0] - address, address - array[0] - array[1], 0)

    near = [array for array in arrays if distance(array) <= array[2]]
    if not near:
        return None
    start, size, _, label, name = min(near, key=distance)
    if address < start:
        return f"{start - address} bytes before the start of {label}", name
    if address >= start + size:
        return f"{address - start - size} bytes past the end of {label}, which has {size} bytes", name
    return f"in {label}", name


def _race(report, lines):
    accesses = re.findall(r"^  (?:Previous )?((?:atomic )?(?:read|write)) of size", report, re.MULTILINE | re.I)
    if len(accesses) < 2 or len(lines) < 2:
        return ""
    return f"{accesses[0].lower()} here, {accesses[1].lower()} by another thread at line {lines[1][1]}"


def _uninitialised_output(function, file):
    """(message, name of the parameter) for a written array that holds bytes from nowhere."""
    address = file.header.launch.fault.address
    for position, (region, offset, size) in file.reaches.items():
        byte = address - file.header.regions[region].address - offset
        if file.header.regions[region].written and 0 <= byte < size:
            name = function.parameters[position] if position < len(function.parameters) else None
            return f"byte {byte} of {function.parameter(position)} was never initialised", name
    return "a byte between the rows of the arguments was never initialised", None


def _origin(report, source_name):
    """Where the memory of an uninitialised value was declared, in words, or ""."""
    marked = report.rpartition("Memory was marked as uninitialized")[2]
    if "out_of_bounds" in marked:
        return "read outside of every array"
    lines = _kernel_lines(marked.partition("SUMMARY")[0], source_name)
    return f"the value comes from the memory declared at line {lines[0][1]}" if lines else ""
