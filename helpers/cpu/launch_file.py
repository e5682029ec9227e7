"""The file through which a launch goes to a child process and back: ctypes mirrors of runtime/launch_file.h."""

import ctypes
import mmap
import os
import weakref
from dataclasses import dataclass

import torch

from ..processes import nameless_file
from .launch import Launch

MAX_ARGUMENTS = 64
_VALUE_BYTES = 4096
_STEP = 64 * 1024  # of file offsets: at least a page on every machine
_APART = 1 << 30  # address space around each region: a wild index meets no other array


class Region(ctypes.Structure):
    _fields_ = [
        ("file_offset", ctypes.c_ulonglong),
        ("lead", ctypes.c_ulonglong),
        ("size", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("address", ctypes.c_ulonglong),
        ("written", ctypes.c_int),
    ]


class Argument(ctypes.Structure):
    _fields_ = [("region", ctypes.c_int), ("offset", ctypes.c_ulonglong)]


class Mark(ctypes.Structure):
    _fields_ = [("region", ctypes.c_int), ("offset", ctypes.c_ulonglong), ("size", ctypes.c_ulonglong)]


class Header(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_ubyte * _VALUE_BYTES),
        ("launch", Launch),
        ("variables", ctypes.c_ulonglong),
        ("argument_count", ctypes.c_int),
        ("region_count", ctypes.c_int),
        ("mark_count", ctypes.c_int),
        ("arguments", Argument * MAX_ARGUMENTS),
        ("regions", Region * MAX_ARGUMENTS),
        ("marks", Mark * MAX_ARGUMENTS),
    ]


@dataclass
class Span:
    """Bytes of this process that one or more arguments reach: from `start` up to `end`."""

    start: int
    end: int
    written: bool


def reach(tensor: torch.Tensor) -> tuple[int, int]:
    """(first, last + 1) address of the bytes that a tensor's elements take."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def _spans(tensors, writes):
    """The Spans of the tensors, with overlapping ones made one."""
    spans = []
    for (start, end), written in sorted(
        (reach(tensor), written) for tensor, written in zip(tensors, writes, strict=True)
    ):
        if spans and start < spans[-1].end:
            spans[-1].end = max(spans[-1].end, end)
            spans[-1].written |= written
        else:
            spans.append(Span(start, end, written))
    return spans


# Tensors whose content counts as unwritten until a kernel has written all of it: id -> (weak reference, reach).
_unwritten = {}


def mark_uninitialised(tensor: torch.Tensor) -> None:
    """Count a CPU tensor's bytes as never written, in mode "msan", until a launch has written every one of them.

    Raises ValueError for a tensor with gaps between its rows: the bytes there belong to others.
    """
    if not tensor.is_contiguous():
        raise ValueError(f"tensor has strides {list(tensor.stride())}; it should be contiguous")
    key = id(tensor)
    _unwritten[key] = (weakref.ref(tensor, lambda _: _unwritten.pop(key, None)), reach(tensor))


def _marks_in(span):
    """(key, start, end) of the marked bytes inside a Span."""
    for key, (_, (start, end)) in list(_unwritten.items()):
        start, end = max(start, span.start), min(end, span.end)
        if start < end:
            yield key, start, end


class LaunchFile:
    """A launch with its arrays, in a file that has no name: it is gone when both processes have closed it.

    args: as given to the kernel. values: their ctypes values. writes: which of them the kernel may write to.
    variables: the launch.Variables that the kernel may write to.
    """

    def __init__(self, launch, args, values, writes, variables):
        if len(args) > MAX_ARGUMENTS:
            raise ValueError(f"a kernel has {len(args)} arguments; the CPU build takes at most {MAX_ARGUMENTS}")
        tensors = [(arg, write) for arg, write in zip(args, writes, strict=True) if isinstance(arg, torch.Tensor)]
        self.spans = _spans(*zip(*tensors, strict=True)) if tensors else []
        offsets, size = [], _round_up(ctypes.sizeof(Header))
        for span in self.spans:
            offsets.append(size)
            size += _round_up(span.start % 256 + span.end - span.start)
        self.variables, variables_at = variables, size
        size += _round_up(sum(variable.size for variable in variables))
        self.file = nameless_file()
        os.ftruncate(self.file.fileno(), size)
        self.memory = mmap.mmap(self.file.fileno(), size)
        self.header = header = Header.from_buffer(self.memory)
        ctypes.memmove(ctypes.byref(header.launch), ctypes.byref(launch), ctypes.sizeof(Launch))
        self._base = ctypes.addressof(header)

        header.variables = variables_at
        for at, variable in self._variables():
            ctypes.memmove(at, variable.address, variable.size)
        header.region_count = len(self.spans)
        self.marked = set()
        for index, (span, offset) in enumerate(zip(self.spans, offsets, strict=True)):
            lead, length = span.start % 256, span.end - span.start
            reserved = -(-(length + 4 * _STEP) // _APART) * _APART
            header.regions[index] = Region(offset, lead, length, reserved, 0, span.written)
            ctypes.memmove(self._base + offset + lead, span.start, length)
            for key, start, end in _marks_in(span):
                header.marks[header.mark_count] = Mark(index, start - span.start, end - start)
                header.mark_count += 1
                self.marked.add(key)

        self.reaches = {}  # position of a tensor -> (its region, offset in it, bytes)
        header.argument_count = len(args)
        used = 0
        for position, (argument, value) in enumerate(zip(args, values, strict=True)):
            if isinstance(argument, torch.Tensor):
                start, end = reach(argument)
                region = max(i for i, span in enumerate(self.spans) if span.start <= start)
                offset = start - self.spans[region].start
                header.arguments[position] = Argument(region, offset)
                self.reaches[position] = (region, offset, end - start)
            else:
                header.arguments[position] = Argument(-1, used)
                ctypes.memmove(self._base + used, ctypes.addressof(value), ctypes.sizeof(value))
                used += _round_up(ctypes.sizeof(value), 16)

    def take_back(self, launch: Launch) -> None:
        """Copy what the kernel wrote into the arguments, and what it left in shared memory into the Launch."""
        for span, region in zip(self.spans, self.header.regions, strict=False):
            if span.written:
                ctypes.memmove(span.start, self._base + region.file_offset + region.lead, span.end - span.start)
        for at, variable in self._variables():
            ctypes.memmove(variable.address, at, variable.size)
        ctypes.memmove(launch.shared, self.header.launch.shared, ctypes.sizeof(launch.shared))
        for key in self.marked:
            _unwritten.pop(key, None)

    def _variables(self):
        """(address of its bytes in this file, the Variable) for each."""
        at = self._base + self.header.variables
        for variable in self.variables:
            yield at, variable
            at += variable.size

    def close(self) -> None:
        """Unmap and close the file, which is gone once the child has closed it too."""
        self.header = self.memory = None  # unmapped with the last reference
        self.file.close()


def _round_up(size, step=_STEP):
    return -(-size // step) * step
