"""CUDA kernels on the CPU: the same source, compiled by the host's C++ compiler, one fiber a CUDA thread.

source.py rewrites `__shared__`, compilers.py and build.py compile, module.py checks arguments, launch.py runs here
and child.py under a sanitizer, whose report reports.py reads. include/ is CUDA C++ for kernels, runtime/ the scheduler.

Threads and blocks may wait for one another in loops of their own: one that spins lets the others run, and a block in
which all spin lets the next one start, up to 132 at once. What can never end becomes a KernelFault: "deadlock" and
the like at once, "endless spin" or "absent block" after a second. A loop that waits and counts can't be told from
work; it ends by Ctrl-C, or at the time limit of a child process. Loops without an atomic, a fence or a __nanosleep are
seen to spin on Linux only.

What a clean run here does not prove: memory order between blocks, which run one after another unless they wait for
one another; speed; coalescing. "tsan" asks for a __threadfence before the atomic that publishes data, not for the one
behind the atomic that finds it; a volatile variable in shared memory orders nothing.
Float results differ from a GPU's in the last bits. There is no inline PTX, no tensor core, no cluster; a thread has
640 KiB of stack, and one launch runs at a time. A pointer in a __device__ variable leads nowhere in a child process.
Sources can tell this build by CUDA_ON_HOST; __CUDA_ARCH__ is 700. Conversions that a GPU saturates ((int)1e20f,
(int)NaN, negative to unsigned) and shifts by the width are C++'s, and reported by "checked".
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
