"""One launch: the ctypes mirrors of runtime/launch.h and entry.h, and launches inside this process."""

import ctypes
import functools
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from .build import build_runtime
from .compilers import INCLUDE
from .faults import KernelFault
from .settings import ORDERS, current, shared_is_kept

SHARED_BYTES = 227 * 1024
MAX_SLOTS = 64
Dim = ctypes.c_uint * 3


class Parameter(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("size", ctypes.c_int)]


class Kernel(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("invoke", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(Parameter)),
        ("parameter_count", ctypes.c_int),
    ]


class Variable(ctypes.Structure):
    pass


Variable._fields_ = [
    ("name", ctypes.c_char_p),
    ("address", ctypes.c_void_p),
    ("size", ctypes.c_ulonglong),
    ("is_const", ctypes.c_bool),
    ("next", ctypes.POINTER(Variable)),
]


class Fault(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_char * 32),
        ("text", ctypes.c_char * 512),
        ("file", ctypes.c_char * 256),
        ("line", ctypes.c_int),
        ("block", Dim),
        ("thread", Dim),
        ("address", ctypes.c_ulonglong),
        ("library", ctypes.c_char * 512),
        ("pc", ctypes.c_ulonglong),
    ]


class SlotPlace(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * 64), ("address", ctypes.c_ulonglong), ("size", ctypes.c_ulonglong)]


class Launch(ctypes.Structure):
    _fields_ = [
        ("grid", Dim),
        ("block", Dim),
        ("shared_bytes", ctypes.c_uint),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_ulonglong),
        ("keep_shared", ctypes.c_int),
        ("slot_count", ctypes.c_int),
        ("slots", SlotPlace * MAX_SLOTS),
        ("fault", Fault),
        ("shared", ctypes.c_ubyte * SHARED_BYTES),
    ]


# The one multiprocessor of this process: its shared memory outlives every launch.
_launch = Launch()
_one_at_a_time = threading.Lock()


def shared_arena() -> memoryview:
    """The 227 KiB of shared memory as the last launch left them, a writable memoryview of bytes.

    `shared_memory("keep")` lets the next block find them.
    """
    return memoryview(_launch.shared).cast("B")


def begin(grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> Launch:
    """The process's Launch, filled in for one launch under the current settings."""
    settings = current()
    _launch.grid[:], _launch.block[:] = grid, block
    _launch.shared_bytes = shared_bytes
    _launch.order = ORDERS.index(settings.order)
    _launch.seed = settings.seed
    _launch.keep_shared = shared_is_kept()
    _launch.fault.kind = b""
    _launch.fault.text = b""
    _launch.fault.file = b""
    _launch.fault.library = b""
    _launch.fault.line = _launch.fault.address = _launch.fault.pc = 0
    return _launch


@functools.cache
def _runtime():
    library = ctypes.CDLL(str(build_runtime("fast")), mode=ctypes.RTLD_GLOBAL)
    library.cuda_host_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(Launch)]
    return library


@functools.cache
def load(path: Path) -> dict[str, Kernel]:
    """dict of name to Kernel of a compiled file."""
    _runtime()  # first, because the kernels refer to it
    library = ctypes.CDLL(str(path))
    count = ctypes.c_int.in_dll(library, "cuda_host_kernel_count").value
    kernels = (Kernel * count).in_dll(library, "cuda_host_kernels")
    return {kernel.name.decode(): kernel for kernel in kernels}


@functools.cache
def variables(path: Path) -> list[Variable]:
    """The __device__ and __constant__ Variables of a compiled file, as this process holds them."""
    load(path)
    found = []
    at = ctypes.POINTER(ctypes.POINTER(Variable)).in_dll(ctypes.CDLL(str(path)), "cuda_host_variables").contents
    while at:
        found.append(at.contents)
        at = at.contents.next
    return found


def run(path: Path, name: str, grid: Sequence[int], block: Sequence[int], shared_bytes: int,
        arguments: Sequence[object]) -> None:  # fmt: skip
    """Run a kernel of the library at `path` here. arguments: one ctypes value a parameter.

    Raises KernelFault; the process survives.
    """
    pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(ctypes.addressof(value) for value in arguments))
    with _one_at_a_time:
        launch = begin(grid, block, shared_bytes)
        failed = _runtime().cuda_host_run(load(path)[name].invoke, pointers, ctypes.byref(launch))
        if failed:
            raise fault_of(launch, name)


def fault_of(launch: Launch, kernel: str) -> KernelFault | KeyboardInterrupt:
    """The exception for what a Launch reports: a KernelFault, or KeyboardInterrupt."""
    fault = launch.fault
    file, line = fault.file.decode(), fault.line
    if not line and fault.library:
        file, line = _source_line(fault.library.decode(), fault.pc)
    if fault.kind == b"interrupted":
        where = f" at {file}:{line}" if line else ""
        return KeyboardInterrupt(
            f"{kernel} was interrupted{where} (block {tuple(fault.block)}, thread {tuple(fault.thread)})"
        )
    text = fault.text.decode(errors="replace")
    return KernelFault(
        fault.kind.decode(),
        text,
        kernel=kernel,
        file=file or None,
        line=line or None,
        thread=tuple(fault.thread),
        block=tuple(fault.block),
        report=text,
    )


def _source_line(library, offset):
    """(file, line) of an instruction at an offset in a library, or (None, None)."""
    tool = shutil.which("addr2line")
    if not tool:
        return None, None
    output = subprocess.run([tool, "-i", "-e", library, hex(offset)], capture_output=True, text=True).stdout
    for file, line in re.findall(r"^(.+):(\d+)", output, re.MULTILINE):  # the innermost inlined function first
        if not os.path.normpath(file).startswith(str(INCLUDE)):
            return os.path.normpath(file), int(line)
    return None, None
