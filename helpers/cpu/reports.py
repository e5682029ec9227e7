"""From what a child process left behind to one KernelFault."""

import re

from .faults import KernelFault
from .launch import fault_of

_KINDS = (
    (r"runtime error: .*misaligned address", "misaligned address"),
    (r"runtime error: index .* out of bounds", "out of bounds"),
    (r"runtime error: .*null pointer", "illegal address"),
    (r"runtime error: division by zero", "integer division by zero"),
    (r"runtime error: ", "undefined behaviour"),
    (r"MemorySanitizer: use-of-uninitialized-value", "uninitialised value"),
    (r"ThreadSanitizer: data race", "data race"),
    (r"Sanitizer: (?:use-after-poison|\w+-buffer-(?:over|under)flow|unknown-crash)", "out of bounds"),
    (r"Sanitizer: SEGV", "illegal address"),
    (r"Sanitizer: FPE", "integer division by zero"),
    (r"Sanitizer: stack-overflow", "stack overflow"),
)


def read_report(mode, function, file, report, status, seconds):
    """The KernelFault for a child that didn't finish its launch, or None.

    function: the HostFunction. file: the LaunchFile. report: the child's stderr. status: its exit status.
    """
    outcome = file.header.launch
    kind = outcome.fault.kind.decode()
    if status == 0 and not kind:
        return None
    if kind == "timeout":
        fault = fault_of(outcome, function.name)
        return _fault(kind, f"still running after {seconds} s (KERNEL_TIMEOUT)", function, fault, report, None)
    if kind == "uninitialised output":
        return _uninitialised_output(function, file, report)
    if kind not in ("", "abort"):  # the scheduler's own
        return fault_of(outcome, function.name)
    name = next((name for pattern, name in _KINDS if re.search(pattern, report)), None)
    if not name:
        name = "killed" if status < 0 else "abort"
        message = f"the child process ended with status {status}: {report.strip() or 'no report'}"
        return KernelFault(name, message, kernel=function.name, report=report)
    lines = _lines(report, function.module.source.name)
    place = fault_of(outcome, function.name) if kind else None
    message, argument = _explain(name, function, file, report, lines)
    return _fault(name, message, function, place, report, argument, lines[0] if lines else (None, None))


def _fault(kind, message, function, place, report, argument, where=(None, None)):
    return KernelFault(
        kind, message, kernel=function.name, file=where[0], line=where[1], argument=argument, report=report,
        thread=place and place.thread, block=place and place.block,
    )  # fmt: skip


def _lines(report, source_name):
    """(file, line) of the kernel's own frames in a report, in its order; one of each run of frames (a stack)."""
    found, in_stack = [], False
    for text in report.splitlines():
        frame = re.match(r"\s*#\d+ ", text)
        match = re.search(rf"({re.escape(source_name)}):(\d+)", text) or re.search(r"([^\s:]+\.cuh?):(\d+)", text)
        if match and not (frame and in_stack):
            found.append((match[1], int(match[2])))
        in_stack = bool(frame) and (in_stack or bool(match))
    return found


def _explain(kind, function, file, report, lines):
    """(message, name of the parameter) for a fault that a sanitizer found."""
    if "runtime error: " in report:
        return re.search(r"runtime error: (.*)", report)[1], None
    if kind in ("out of bounds", "illegal address"):
        address = re.search(r"(?:on|unknown) address (0x[0-9a-f]+)", report)
        access = re.search(r"\b(READ|WRITE) (?:of size (\d+)|memory access)", report)
        verb = "an access"
        if access:
            size = f" of {access[2]} bytes" if access[2] else ""
            verb = f"a {access[1].lower()}{size}"
        place, argument = _locate(function, file, int(address[1], 16)) if address else ("an unknown address", None)
        return f"{verb} {place}", argument
    if kind == "uninitialised value":
        return f"this value comes from line {lines[1][1]}" if len(lines) > 1 else "", None
    if kind == "data race":
        accesses = re.findall(
            r"^  (?:Previous )?(?:atomic )?(read|write) of size", report, re.MULTILINE | re.IGNORECASE
        )
        numbers = [line for _, line in lines]
        if len(accesses) == 2 and len(numbers) > 1:
            return f"a {accesses[0].lower()} here, a {accesses[1].lower()} by another thread at line {numbers[1]}", None
    return "", None


def _locate(function, file, address):
    """("4 bytes past the end of argument 1 (x)", "x") for an address of the child."""
    places = []
    header = file.header
    for position in range(header.argument_count):
        region_index = header.arguments[position].region
        if region_index >= 0:
            region = header.regions[region_index]
            places.append((region.address, region.size, region.reserved // 2, function.parameter(position), position))
    for slot in header.launch.slots[: header.launch.slot_count]:
        name = slot.name.decode()
        label = name if name.startswith("dynamic") else f"__shared__ {name}"
        places.append((slot.address, slot.size, 16 * 1024, label, None))

    def distance(place):
        start, size = place[:2]
        return start - address if address < start else max(0, address - (start + size) + 1)

    near = [place for place in places if distance(place) <= place[2]]
    if not near:
        return f"at address {address:#x}, far from every array", None
    start, size, _, label, position = min(near, key=distance)
    known = position is not None and position < len(function.parameters)
    name = function.parameters[position] if known else None
    if address < start:
        return f"{start - address} bytes before the start of {label}", name
    if address >= start + size:
        return f"{address - start - size} bytes past the end of {label}, which has {size} bytes", name
    return f"in {label}", name


def _uninitialised_output(function, file, report):
    """The fault for a written array that holds bytes from nowhere."""
    header = file.header
    address = header.launch.fault.address
    for position in range(header.argument_count):
        argument = header.arguments[position]
        region = header.regions[argument.region] if argument.region >= 0 else None
        if region and region.written and region.address <= address < region.address + region.size:
            byte = address - region.address - argument.offset
            lines = _lines(report, function.module.source.name)
            name = function.parameters[position] if position < len(function.parameters) else None
            message = f"byte {byte} of {function.parameter(position)} was never initialised"
            return _fault(
                "uninitialised output", message, function, None, report, name, lines[0] if lines else (None, None)
            )
    raise AssertionError("an address outside every argument")
