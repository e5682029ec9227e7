"""What the CPU build runs and what it refuses: each kernel of this folder, its arguments, its expected answer."""

from .first_kernels import BLOCKS, ELEMENTWISE
from .real_numbers import FAST_MATH, HALVES, ROUNDING
from .whole_numbers import ATOMICS, INTEGERS, STACK
from .working_together import GROUPS, SHARED, WARPS

ENTRIES = [*ELEMENTWISE, *BLOCKS, *SHARED, *WARPS, *GROUPS, *INTEGERS, *ROUNDING, *FAST_MATH, *HALVES, *ATOMICS, *STACK]


def names(file):
    """The name expressions of a file's entries: one build serves them all."""
    return [entry.kernel for entry in ENTRIES if entry.file == file]


# ---- refused/: file -> what the CPU build says. LEGAL: NVRTC compiles it. ------------------------------
LEGAL = {
    "asm_volatile": r"asm_volatile\.cu:4:\d+: error: the CPU build has no PTX",
    "asm_in_a_macro": r"asm_in_a_macro\.cu:3:\d+: error: the CPU build has no PTX",
    "texture": r"texture\.cu:2:\d+: error: the CPU build has no textures",
    "grid_barrier": r"grid_barrier\.cu:5: error: the CPU build has no barrier of the whole grid",
    "cluster": r"cluster\.cu:2:\d+: error: the CPU build has no clusters",
    "cub": r"cub\.cu:2: error: the CPU build lacks <cub/block/block_reduce.cuh>",
    "cuda_atomic": r"cuda_atomic\.cu:2: error: the CPU build lacks <cuda/atomic>",
    "fp8": r"fp8\.cu:2: error: the CPU build lacks <cuda_fp8.h>",
    "pipeline": r"pipeline\.cu:2: error: the CPU build lacks <cuda_pipeline.h>",
    "simd_in_a_word": r"NVRTC compiles this for a GPU, but the CPU build can't:[^$]*:2:\d+: error: .*__vadd4",
    "shared_macro": r"shared_macro\.cu:2: a macro that declares a __shared__ variable is too involved",
}
ILLEGAL = {
    "tensor_cores": r"tensor_cores\.cu:2: error: the CPU build lacks <mma.h>",  # nor has NVRTC all of it
    "launch_syntax": r"error: cudaMalloc is host code.*launch\(kernel, grid, block, args\)",
    "host_calls": r"host_calls\.cu:3: error: cudaMalloc is host code.*launch\(kernel, grid, block, args\)",
    "template_without_arguments": r"without_arguments\.cu:2: kernel is a template.*\"kernel<float>\"",
    "infinity": r'refuses it:[^$]*infinity\.cu\(2\): error: identifier "INFINITY" is undefined',
    "fixed_width": r'refuses it:[^$]*fixed_width\.cu\(2\): error: identifier "uint32_t" is undefined',
    "vector": r'refuses it:[^$]*vector\.cu\(2\): catastrophic error: cannot open source file "vector"',
    "atomic_max_of_floats": r"atomic_max_of_floats\.cu:2: error: CUDA has no atomicMax for this type",
    "much_shared_memory": r"kernel declares 81920 bytes of __shared__ variables, and a block gets 49152",
    "device_lambda": r"device_lambda\.cu\(3\): error: .*annotation on lambda",
    "old_shuffle": r"old_shuffle\.cu:2:\d+: error: .*__shfl",
    "half_plus_float": r"half_plus_float\.cu:3:\d+: error: ambiguous overload|more than one operator",
}
