"""CUDA kernels on the CPU: the same source, compiled by the host's C++ compiler, one fiber a CUDA thread."""

from .compilers import available_modes
from .faults import CompileError, KernelFault
from .launch import shared_arena
from .launch_file import mark_uninitialised
from .module import HostFunction, HostModule
from .settings import MODES, ORDERS, mode, shared_memory
from .source import Source

__all__ = [
    "MODES",
    "ORDERS",
    "CompileError",
    "HostFunction",
    "HostModule",
    "KernelFault",
    "Source",
    "available_modes",
    "mark_uninitialised",
    "mode",
    "shared_arena",
    "shared_memory",
]
