"""Compiled kernels with the calls of cupy.RawModule."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from . import child, launch
from .build import build_kernels
from .faults import CompileError
from .refusals import explain
from .settings import current
from .source import parameter_names, plain_kernels

_POINTER, _CONST_POINTER, _INTEGER, _FLOATING, _BOOLEAN, _STRUCT = range(6)
_KINDS = {_INTEGER: "iu", _FLOATING: "f", _BOOLEAN: "b", _STRUCT: "V"}
_NAMES = {_INTEGER: "an integer", _FLOATING: "a floating-point number", _BOOLEAN: "a bool", _STRUCT: "a struct"}
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024


class HostModule:
    """The kernels of one source, built for the CPU. Same calls as cupy.RawModule.

    source: a Source. name_expressions: as for NVRTC; when empty, the extern "C" kernels.
    defines: tuple of (name, value).
    """

    def __init__(self, source, name_expressions, defines):
        self.source = source
        self.name_expressions = tuple(name_expressions) or tuple(plain_kernels(source.text))
        self.defines = defines
        self._libraries = {}
        if not self.name_expressions:
            raise ValueError(f'{source.name} has no extern "C" kernel; name_expressions should name some')
        launch.load(self.library("fast"))  # compiles now, so that errors come here

    def library(self, mode: str) -> Path:
        """Path of the shared library for a mode; compiled at the first call."""
        if mode not in self._libraries:
            try:
                self._libraries[mode] = build_kernels(self.source, self.name_expressions, self.defines, mode)
            except CompileError as error:
                raise CompileError(explain(str(error), self.source)) from None
        return self._libraries[mode]

    def get_function(self, name: str) -> HostFunction:
        """The HostFunction of one of the name expressions. Raises ValueError for another name."""
        if name not in self.name_expressions:
            raise ValueError(
                f"{name!r} is not among the name expressions of {self.source.name}: {', '.join(self.name_expressions)}"
            )
        return HostFunction(self, name)


    def variables(self) -> list[launch.Variable]:
        """The launch.Variables of the source. Every mode starts from the values in this process, and leaves its own."""
        return launch.variables(self.library("fast"))

    def get_global(self, name: str) -> launch.Variable:
        """The launch.Variable (address, size) of a `__device__` or `__constant__` variable, such as "ns::weights".

        Raises ValueError for another name. `helpers.device_variable` makes a tensor of it, on either device.
        """
        named = {variable.name.decode(): variable for variable in self.variables()}
        if name not in named:
            listed = ", ".join(sorted(named)) or "none"
            raise ValueError(f"{name!r} is not among the device variables of {self.source.name}: {listed}")
        return named[name]


class HostFunction:
    """One kernel. Called as function(grid, block, args, shared_mem=0), like a cupy.RawModule's.

    args: CPU tensors for pointers (their data pointer; None is a null pointer), numpy scalars of the exact C
    type for the rest. Raises TypeError or ValueError for arguments that don't fit, before anything runs, and
    KernelFault for what goes wrong in the kernel.
    """

    def __init__(self, module, name):
        self.module = module
        self.name = name
        self.parameters = parameter_names(module.source.text, name)
        kernel = launch.load(module.library("fast"))[name]
        self._types = [kernel.parameters[i] for i in range(kernel.parameter_count)]

    def __call__(self, grid, block, args, shared_mem=0):
        grid, block = launch_sizes(grid, block, shared_mem)
        if shared_mem > launch.SHARED_BYTES:
            raise ValueError(f"shared_mem is {shared_mem}, expected 0 to {launch.SHARED_BYTES} bytes")
        if len(args) != len(self._types):
            raise TypeError(f"{self.name} takes {len(self._types)} arguments, {len(args)} given")
        values = [self._value(position, argument) for position, argument in enumerate(args)]
        mode = current().mode
        path = self.module.library(mode)
        if mode == "fast":
            launch.run(path, self.name, grid, block, shared_mem, values)
        else:
            writes = [kind.kind == _POINTER for kind in self._types]
            variables = [variable for variable in self.module.variables() if not variable.is_const]
            child.run(mode, path, self, grid, block, shared_mem, args, values, writes, variables)

    def parameter(self, position: int) -> str:
        """How messages name a parameter."""
        known = position < len(self.parameters)
        return f"argument {position} ({self.parameters[position]})" if known else f"argument {position}"

    def _value(self, position, argument):
        """The ctypes value of one argument, checked against the kernel's signature."""
        kind, size = self._types[position].kind, self._types[position].size
        where = f"{self.name}: {self.parameter(position)}"
        if kind in (_POINTER, _CONST_POINTER):
            if argument is None:
                return ctypes.c_void_p(None)
            if not isinstance(argument, torch.Tensor):
                raise TypeError(f"{where} is a pointer, expected a tensor or None, got {type(argument).__name__}")
            if argument.device.type != "cpu":
                raise TypeError(f"{where} is on {argument.device}, expected a tensor on the CPU")
            return ctypes.c_void_p(argument.data_ptr())
        if not isinstance(argument, np.generic) or argument.dtype.kind not in _KINDS[kind] or argument.nbytes != size:
            given = (
                f"{type(argument).__name__} of {argument.nbytes} bytes"
                if isinstance(argument, np.generic)
                else type(argument).__name__
            )
            raise TypeError(f"{where} is {_NAMES[kind]} of {size} bytes, got {given}")
        return (ctypes.c_char * size).from_buffer_copy(argument.tobytes())


def launch_sizes(grid: int | Sequence[int], block: int | Sequence[int],
                 shared_mem: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:  # fmt: skip
    """Grid and block as (x, y, z), checked as far as every device agrees: TypeError for what is no whole number, and
    ValueError for one that no launch can have."""
    grid, block = _dimensions("grid", grid, MAX_GRID), _dimensions("block", block, MAX_BLOCK)
    if block[0] * block[1] * block[2] > MAX_THREADS:
        raise ValueError(f"block has {block[0] * block[1] * block[2]} threads, expected at most {MAX_THREADS}")
    if not _is_whole(shared_mem):
        raise TypeError(f"shared_mem is {shared_mem!r}, expected an int, a number of bytes")
    if shared_mem < 0:
        raise ValueError(f"shared_mem is {shared_mem}, expected no less than 0 bytes")
    return grid, block


def _dimensions(what, value, limits):
    """A grid or block as (x, y, z)."""
    sizes = value if isinstance(value, tuple | list | np.ndarray) else (value,)
    if not all(map(_is_whole, sizes)):
        raise TypeError(f"{what} is {value!r}, expected one to three ints")
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"{what} is {value!r}, expected one to three sizes")
    sizes = (*map(int, sizes), 1, 1)[:3]
    if any(not 1 <= size <= limit for size, limit in zip(sizes, limits, strict=True)):
        raise ValueError(f"{what} is {value!r}, expected sizes from 1 up to {limits}")
    return sizes


def _is_whole(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
