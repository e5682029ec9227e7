"""What a launch on the CPU can raise."""

import os

from helpers.machine import ROOT


def as_in_the_project(text: str) -> str:
    """The text with the project's files as one knows them, "kernels/store_cache.cu", wherever the checkout lies."""
    return text.replace(f"{ROOT}{os.sep}", "")


class CompileError(RuntimeError):
    """A kernel doesn't compile. The message is the compiler's, with the kernel's own file and lines."""

    def __init__(self, message):
        super().__init__(as_in_the_project(message))


class CacheError(RuntimeError):
    """Compiled kernels can't be kept. The message says where and why, and what to set."""

    def __init__(self, reason):
        super().__init__(f"{reason}. Set the environment variable KERNEL_CACHE to a folder that you can write.")


class KernelFault(RuntimeError):
    """A launch that ended early.

    kind: what happened, in two or three words ("out of bounds", "divergent barrier", "timeout", ...).
    kernel: its name. file, line: where in the kernel's source (None when unknown).
    thread, block: (x, y, z) of the CUDA thread. argument: name of the parameter concerned, or None.
    report: the full text of the tool that found it.
    """

    def __init__(
        self, kind, message, *, kernel, file=None, line=None, thread=None, block=None, argument=None, report=""
    ):
        where = f" at {file}:{line}" if line else ""
        who = f" (block {block}, thread {thread})" if block else ""
        super().__init__(as_in_the_project(f"{kind} in {kernel}{where}{who}" + (f": {message}" if message else "")))
        self.kind = kind
        self.kernel = kernel
        self.file = file
        self.line = line
        self.thread = thread
        self.block = block
        self.argument = argument
        self.report = report
