"""CUDA kernels on the CPU: the same source, compiled by the host's C++ compiler, one fiber a CUDA thread.

source.py rewrites `__shared__`, compilers.py and build.py compile, module.py checks arguments, launch.py runs here
and child.py under a sanitizer, whose report reports.py reads. include/ is CUDA C++ for kernels, runtime/ the scheduler.

What a clean run here does not prove: memory order between blocks, which run one after another; speed; coalescing.
Float results differ from a GPU's in the last bits. There is no inline PTX, no tensor core, no cluster; a thread has
64 KiB of stack, and one launch runs at a time.
"""

from .compilers import compiler, missing_modes
from .faults import CacheError, CompileError, KernelFault
from .launch import shared_arena
from .launch_file import mark_uninitialised
from .module import HostFunction, HostModule, launch_sizes
from .settings import MODES, ORDERS, mode, shared_memory
from .source import Source

__all__ = [
    "MODES",
    "ORDERS",
    "CacheError",
    "CompileError",
    "HostFunction",
    "HostModule",
    "KernelFault",
    "Source",
    "compiler",
    "launch_sizes",
    "mark_uninitialised",
    "missing_modes",
    "mode",
    "shared_arena",
    "shared_memory",
]
