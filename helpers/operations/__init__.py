"""The operations, one file a kernel of the same name: validate, choose the launch, launch.

Each file also declares what its kernel has to prove, and is found by the kernel's name:
    launches(arch, shared_bytes)   the Chosen that the host side can launch on an architecture, such as "sm_90", that
                                   grants a block so many bytes of shared memory: all are compiled, and fit
    try_variants(where)            a call of each variant but those that show a bug, at the sizes of the lessons: every
                                   sanitizer and every mode of the CPU build finds nothing in them
"""

import importlib
from types import ModuleType
from typing import NamedTuple

from helpers.kernel import KERNELS


class Chosen(NamedTuple):
    """A launch that the host side can choose: the kernel's name, threads of a block, dynamic shared memory in bytes."""

    name: str
    threads: int
    shared_bytes: int = 0


def every_operation() -> dict[str, ModuleType]:
    """dict of each kernel's name, that of its file in kernels/, to its module here. LookupError if one is missing or
    doesn't declare what it should."""
    found = {}
    for stem in sorted(path.stem for path in KERNELS.glob("*.cu")):
        try:
            module = importlib.import_module(f"{__name__}.{stem}")
        except ModuleNotFoundError:
            raise LookupError(f"kernels/{stem}.cu has no host side: helpers/operations/{stem}.py is missing") from None
        for name in ("launches", "try_variants"):
            if not hasattr(module, name):
                raise LookupError(f"helpers/operations/{stem}.py has no {name}(), see helpers/operations")
        found[stem] = module
    return found
