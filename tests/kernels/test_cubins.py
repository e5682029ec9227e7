"""Every kernel compiles to machine code for every architecture it is meant for, with no GPU and no driver."""

import pytest

from helpers import sliding_window_attention, sparse_attention, store_cache, topk_transform
from helpers.kernel import KERNELS, compile_to_cubin

NAMES = {
    "store_cache.cu": store_cache.VARIANTS,
    "sliding_window_attention.cu": [
        f"sliding_window_attention<{t}, {d}, Masking::{m}>"
        for t in sliding_window_attention.DTYPES.values()
        for d in sliding_window_attention.HEAD_DIMS
        for m in sliding_window_attention.MASKINGS.values()
    ],
    "topk_transform.cu": [
        f"topk_transform<Overflow::{o}, {cap}, 12>"
        for o in topk_transform.OVERFLOWS.values()
        for cap in (4, 1024, 2048)
    ],
    "exact_topk.cu": [
        "exact_topk<1024, 8, 1, false>",
        "exact_topk<1024, 16, 1, false>",
        "exact_topk<1024, 0, 1, true>",
        "exact_topk<512, 0, 1, false>",
    ],
    "sparse_attention.cu": [
        f"sparse_attention<{t}, Sentinel::{s}>"
        for t in sparse_attention.DTYPES.values()
        for s in sparse_attention.SENTINELS.values()
    ],
    "leave_in_shared.cu": ["leave_in_shared"],
}


def test_no_kernel_is_forgotten():
    assert set(NAMES) == {path.name for path in KERNELS.glob("*.cu")}


@pytest.mark.parametrize("arch", ("sm_80", "sm_90", "sm_100", "sm_120"))
@pytest.mark.parametrize("kernel", NAMES)
def test_compiles_to_a_cubin(kernel, arch):
    cubin = compile_to_cubin(kernel, NAMES[kernel], arch)
    assert cubin.cubin[:4] == b"\x7fELF"
    assert set(cubin.names) == set(NAMES[kernel])
    # In its own name section, not merely asked for: the file holds the code of each variant.
    assert all(lowered.encode() in cubin.cubin for lowered in cubin.names.values())


def test_the_exact_kernel_compiles_for_every_cluster():
    names = [f"exact_topk<{threads}, 0, {cluster}, false>" for threads in (512, 1024) for cluster in (2, 4, 8, 16)]
    assert set(compile_to_cubin("exact_topk.cu", names, "sm_90").names) == set(names)
