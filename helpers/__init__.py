"""The face of the package: compile and launch kernels, and the four operations as functions.

The wings, from the top floor down. A room imports from its own wing and from those below it.

    lessons        the lessons as files: run, kept, checked, begun; what they print of this machine
    doctor         what this machine has, and how to get the rest (python -m helpers.doctor)
    sweep          random calls of the kernels against plain torch (python -m helpers.sweep)
    exercises      the checkers, one file a group of lessons
    figures        the style, and one file of figures a group of lessons
    tools          the programs and canaries that lesson 30 puts under tools; what the tools said
    bench          times: measured, kept, printed
    small_server   the small model and the engine that serves it
    proof          what an operation is held against: references, runs of all variants, children that may die
    operations     the operations, one file a kernel of the same name: validate, choose the launch, launch
    arrays         what kernels are called on: drawn inputs, memory that shows mistakes
    kernel         compile a CUDA source and launch its kernels, on a GPU or on the CPU
    cpu            the build for the CPU: CUDA's headers, the scheduler of threads, the modes
    processes      programs with a limit that holds, and that end with this one
    machine        facts about this machine
"""

from helpers.kernel import compile_cuda, compile_to_cubin, device, device_variable, launch
from helpers.operations.sliding_window_attention import sliding_window_attention
from helpers.operations.sparse_attention import sparse_attention
from helpers.operations.store_cache import store_cache
from helpers.operations.topk_transform import topk_transform

__all__ = [
    "compile_cuda",
    "compile_to_cubin",
    "device",
    "device_variable",
    "launch",
    "sliding_window_attention",
    "sparse_attention",
    "store_cache",
    "topk_transform",
]
