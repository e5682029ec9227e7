"""Every kernel compiles to machine code for every architecture it is meant for, and every launch that the host side can
choose fits what the architecture grants a block. Needs no GPU and no driver."""

import itertools
from typing import NamedTuple

import pytest

from helpers.kernel import KERNELS, compile_to_cubin
from helpers.operations import sliding_window_attention, sparse_attention, store_cache, topk_transform
from helpers.operations.exact_topk import STATIC_BYTES, choose_launch, gpu_limits
from helpers.tools.registers import registers, static_shared

# KiB of shared memory that a block can have (CUDA programming guide, table of compute capabilities). All of them grant
# it 1024 threads and 65536 registers, given to a warp in units of 256.
SHARED_KIB = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_103": 227}
SHARED_KIB |= {"sm_120": 99, "sm_121": 99}
MAX_THREADS, MAX_REGISTERS = 1024, 65536
# They run the machine code of the other as it is, under the same limits: only the largest blocks are compiled anew.
TWINS = {"sm_89": "sm_86", "sm_103": "sm_100", "sm_121": "sm_120"}


class Choice(NamedTuple):
    """A launch that the host side can choose: the kernel's name, threads of a block, dynamic shared memory in bytes."""

    name: str
    threads: int
    dynamic: int = 0


def exact_choices(arch):
    """Whatever `choose_launch` says for any batch and length, on GPUs of any size."""
    chosen = {
        choose_launch(batch, length, gpu_limits(int(arch[3:-1]), multiprocessors, SHARED_KIB[arch] * 1024))
        for batch in (1, 2, 5, 10, 30, 100, 1000)
        for length in (1, 8193, 16385, 32768, 65536, 2**17, 2**18, 2**19, 2**20)
        for multiprocessors in (4, 16, 40, 132, 148, 170)
    }
    return [Choice(shape.kernel(pdl), shape.threads, shape.shared_bytes) for shape in chosen for pdl in (False, True)]


def choices(kernel, arch):
    if kernel == "store_cache.cu":
        return [Choice(name, 32 * store_cache.WARPS_PER_BLOCK) for name in store_cache.VARIANTS]
    if kernel == "sliding_window_attention.cu":
        each = itertools.product(
            sliding_window_attention.DTYPES.values(),
            sliding_window_attention.HEAD_DIMS,
            sliding_window_attention.MASKINGS.values(),
        )
        threads = sliding_window_attention.THREADS
        return [Choice(f"sliding_window_attention<{t}, {d}, Masking::{m}>", threads) for t, d, m in each]
    if kernel == "topk_transform.cu":  # the smallest, the default and the largest of its sizes
        each = itertools.product(topk_transform.OVERFLOWS.values(), ("1, 2", "1024, 12", "2048, 12"))
        return [Choice(f"topk_transform<Overflow::{o}, {sizes}>", topk_transform.THREADS) for o, sizes in each]
    if kernel == "exact_topk.cu":
        return exact_choices(arch)
    if kernel == "sparse_attention.cu":
        each = itertools.product(sparse_attention.DTYPES.values(), sparse_attention.SENTINELS.values())
        return [Choice(f"sparse_attention<{t}, Sentinel::{s}>", sparse_attention.THREADS) for t, s in each]
    assert kernel == "leave_in_shared.cu", f"what launches {kernel}?"
    return [Choice("leave_in_shared", 256, SHARED_KIB[arch] * 1024)]


FILES = sorted(path.name for path in KERNELS.glob("*.cu"))


@pytest.mark.parametrize("arch", SHARED_KIB)
@pytest.mark.parametrize("kernel", FILES)
def test_every_launch_fits_a_block(kernel, arch):
    chosen = choices(kernel, arch)
    if arch in TWINS:
        largest = max(choice.threads for choice in chosen)
        chosen = [choice for choice in chosen if choice.threads == largest and "true" not in choice.name]
    cubin = compile_to_cubin(kernel, [choice.name for choice in chosen], arch)
    used, declared = registers(cubin), static_shared(cubin)
    assert len(set(cubin.names.values())) == len(chosen) == len(used)
    for name, threads, dynamic in chosen:
        lowered = cubin.names[name]
        assert threads <= MAX_THREADS, name
        assert 0 < used[lowered] <= 255 and -(-used[lowered] // 8) * 8 * threads <= MAX_REGISTERS, name
        assert declared[lowered] + dynamic <= SHARED_KIB[arch] * 1024, name
        if kernel == "exact_topk.cu":
            assert 8 * 1024 < declared[lowered] <= STATIC_BYTES, f"{name}: what the host side takes it for"


@pytest.mark.parametrize(("arch", "largest_cluster", "listed"), [
    ("sm_75", 1, 6144), ("sm_80", 1, 12288), ("sm_86", 1, 12288), ("sm_89", 1, 12288), ("sm_90", 16, 12288),
    ("sm_100", 16, 12288), ("sm_103", 16, 12288), ("sm_120", 8, 12288), ("sm_121", 8, 12288),
])  # fmt: skip
def test_the_launches_that_are_compiled_are_all_there_are(arch, largest_cluster, listed):
    """Both kinds of registers, and lists in blocks of either size, alone and in each cluster."""
    clusters = [2**i for i in range(largest_cluster.bit_length())]
    expected = {f"1024, {items}, 1, {pdl}, 12288" for items in (8, 16) for pdl in ("false", "true")}
    expected |= {f"{threads}, 0, {cluster}, {pdl}, {listed}"
                 for threads in (512, 1024) for cluster in clusters for pdl in ("false", "true")}  # fmt: skip
    assert {choice.name for choice in exact_choices(arch)} == {f"exact_topk<{words}>" for words in expected}


@pytest.mark.parametrize("arch", SHARED_KIB)
def test_shared_memory_is_read_from_machine_code(arch):
    source = """
extern "C" __global__ void none(int* x) { *x = 1; }
extern "C" __global__ void some(int* x) {
  __shared__ int words[100];
  extern __shared__ int more[];
  words[threadIdx.x] = x[threadIdx.x];
  more[threadIdx.x] = words[threadIdx.x ^ 1];
  __syncthreads();
  *x = words[*x] + more[*x];
}
"""
    assert static_shared(compile_to_cubin(source, arch=arch)) == {"none": 0, "some": 400}
