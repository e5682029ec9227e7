"""Every kernel compiles to machine code for every architecture it is meant for, and every launch that the host side can
choose fits what the architecture grants a block. Needs no GPU and no driver."""

import sys
from types import SimpleNamespace

import pytest

from helpers import operations
from helpers.kernel import compile_to_cubin
from helpers.operations import every_operation
from helpers.operations.exact_topk import STATIC_BYTES
from helpers.tools.registers import registers, static_shared

# KiB of shared memory that a block can have (CUDA programming guide, table of compute capabilities). All of them grant
# it 1024 threads and 65536 registers, given to a warp in units of 256.
SHARED_KIB = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_103": 227}
SHARED_KIB |= {"sm_120": 99, "sm_121": 99}
MAX_THREADS, MAX_REGISTERS = 1024, 65536
# They run the machine code of the other as it is, under the same limits: only the largest blocks are compiled anew.
TWINS = {"sm_89": "sm_86", "sm_103": "sm_100", "sm_121": "sm_120"}
OPERATIONS = every_operation()


def choices(kernel, arch):
    return OPERATIONS[kernel].launches(arch, SHARED_KIB[arch] * 1024)


@pytest.mark.parametrize("arch", SHARED_KIB)
@pytest.mark.parametrize("kernel", OPERATIONS)
def test_every_launch_fits_a_block(kernel, arch):
    chosen = choices(kernel, arch)
    if arch in TWINS:
        largest = max(choice.threads for choice in chosen)
        chosen = [choice for choice in chosen if choice.threads == largest and "true" not in choice.name]
    cubin = compile_to_cubin(f"{kernel}.cu", [choice.name for choice in chosen], arch)
    used, declared = registers(cubin), static_shared(cubin)
    assert len(set(cubin.names.values())) == len(chosen) == len(used)
    for name, threads, dynamic in chosen:
        lowered = cubin.names[name]
        assert threads <= MAX_THREADS, name
        assert 0 < used[lowered] <= 255 and -(-used[lowered] // 8) * 8 * threads <= MAX_REGISTERS, name
        assert declared[lowered] + dynamic <= SHARED_KIB[arch] * 1024, name
        if kernel == "exact_topk":
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
    assert {choice.name for choice in choices("exact_topk", arch)} == {f"exact_topk<{words}>" for words in expected}


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


def test_a_kernel_without_its_declarations_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(operations, "KERNELS", tmp_path)
    (tmp_path / "store_cache.cu").touch()
    assert list(every_operation()) == ["store_cache"]
    (tmp_path / "mine.cu").touch()
    with pytest.raises(LookupError, match=r"kernels/mine.cu has no host side: helpers/operations/mine.py is missing"):
        every_operation()
    monkeypatch.setitem(sys.modules, "helpers.operations.mine", SimpleNamespace(launches=print))
    with pytest.raises(LookupError, match=r"helpers/operations/mine.py has no try_variants\(\)"):
        every_operation()
