"""Every shipped kernel in every variant but the buggy one, at the sizes of the lessons.

    python -m helpers.proof.shipped           once, on helpers.device(): the program to put under compute-sanitizer
    python -m helpers.proof.shipped --modes   on the CPU build, in every mode and thread order; exit status 1 if one
                                              faults
"""

import itertools
import os
import sys
import time

import torch

from helpers import cpu
from helpers.arrays import inputs, memory
from helpers.kernel import device
from helpers.operations.exact_topk import LISTED_IN_LITTLE, Launch, launch_exact
from helpers.operations.sliding_window_attention import MASKINGS, sliding_window_attention
from helpers.operations.sparse_attention import SENTINELS, sparse_attention
from helpers.operations.store_cache import store_cache
from helpers.operations.topk_transform import OVERFLOWS, topk_transform

BUGGY = "unwritten"
# (columns of bf16 rows, warps a row): each vector width with each split.
ROW_SHAPES = [(64 * 2**i, split) for i, split in itertools.product(range(3), (1,))]
ROW_SHAPES += [(split * columns, split) for columns, split in itertools.product((64, 128, 256), (2, 4))]


def _int32(values, where):
    return torch.tensor(values, dtype=torch.int32, device=where)


def run_store_cache(where):
    """Eight rows into 16 slots: padding rows, which are skipped, and strided ones; both index types, PDL on and off."""
    for (columns, split), dtype, pdl in itertools.product(ROW_SHAPES, (torch.int32, torch.int64), (False, True)):
        k, v = torch.randn(8, 2 * columns, device=where).bfloat16().chunk(2, dim=1)
        caches = torch.zeros(2, 16, columns, dtype=torch.bfloat16, device=where)
        indices = torch.tensor([3, 0, 7, 0, 9, 1, 0, 15], dtype=dtype, device=where)
        store_cache(k, v, *caches, indices, num_split=split, pdl=pdl)
    store_cache(k[:1], v[:1], *caches, indices[1:2], reserved_skip_index=-1)


def run_sliding_window_attention(where):
    lengths = _int32([1, 64, 70, 200], where)
    table = inputs.page_table(4, 4).to(where)
    for masking, dtype, dim in itertools.product(MASKINGS, (torch.float32, torch.bfloat16), (64, 128)):
        q = torch.randn(4, 4, dim, device=where).to(dtype)
        k_cache, v_cache = torch.randn(2, 17 * 64, 2, dim, device=where).to(dtype)
        sliding_window_attention(q, k_cache, v_cache, table, lengths, 128, 64, masking=masking)


def run_topk_transform(where):
    """The row seen in the field; rows for each way to settle ties (ballots, radix select); a row with nothing to
    choose."""
    ties = [inputs.row_with(1900, in_bin, 4096)[0] for in_bin in (150, 170, 200, 260, 700)]
    crowded = torch.stack([*ties, *inputs.scores("ReLU plateau", 2, 4096)])
    cases = [(inputs.field_row(), [7613], 2048), (crowded, [4096] * 6 + [100], 2048), (crowded[:2], [4096, 300], 512)]
    for overflow in OVERFLOWS.keys() - {BUGGY}:
        for scores, lengths, topk in cases:
            table = inputs.page_table(len(scores), -(-scores.shape[1] // 64)).to(where)
            raw = memory.poisoned((len(scores), topk), torch.int32, where)
            topk_transform(scores.to(where), _int32(lengths, where), table, topk, overflow=overflow, raw_out=raw)


def run_exact_topk(where):
    """A row in registers, rows in lists, also in lists as short as older GPUs have room for; ties; and on a GPU every
    cluster, so that blocks read each other's memory."""
    shapes = [Launch(1024, 8, 1), Launch(1024, 16, 1), Launch(1024, 0, 1), Launch(512, 0, 1)]
    shapes += [Launch(threads, 0, 1, LISTED_IN_LITTLE) for threads in (512, 1024)]
    if where == "cuda":
        shapes += [Launch(threads, 0, cluster) for threads in (512, 1024) for cluster in (2, 4, 8, 16)]
    scores = torch.cat([inputs.field_row(), inputs.scores("8 values", 2, 7613)]).to(where)
    table = inputs.page_table(3, 119).to(where)
    for shape, pdl in itertools.product(shapes, (False, True)):
        out, raw = (memory.poisoned((3, 2048), torch.int32, where) for _ in range(2))
        launch_exact(scores, _int32([7613, 5000, 100], where), table, 2048, 64, out, raw, pdl, shape)


def run_sparse_attention(where):
    for sentinel, dtype in itertools.product(SENTINELS, (torch.float32, torch.bfloat16)):
        cache = torch.randn(4096, 64, device=where).to(dtype)
        indices = torch.randint(0, 4096, (2, 2048), dtype=torch.int32, device=where)
        if sentinel == "check":
            indices[:, 1000:1100] = -1
        sparse_attention(cache[:8].view(2, 4, 64), cache, indices, _int32([7613, 5], where), sentinel=sentinel)


def run_leave_in_shared(where):
    with memory.left_in_shared(_int32([1, 2, 3], "cpu"), where):
        pass


# By the stem of the file in kernels/.
RUNS = {
    "store_cache": run_store_cache,
    "sliding_window_attention": run_sliding_window_attention,
    "topk_transform": run_topk_transform,
    "exact_topk": run_exact_topk,
    "sparse_attention": run_sparse_attention,
    "leave_in_shared": run_leave_in_shared,
}


def run_all(where):
    for name, run in RUNS.items():
        run(where)
        if where == "cuda":
            torch.cuda.synchronize()
        print(f"{name}: ran", flush=True)
    print("all shipped kernels ran", flush=True)


def run_modes():
    """Run all on the CPU build in every mode; prints a line each. Returns how many (kernel, mode, order) faulted.

    A race detector sees a race whatever the order, and is slow: tsan runs in one order only.
    """
    faults = 0
    missing = cpu.missing_modes()
    for mode in cpu.MODES:
        if mode in missing:
            print(f"{mode:8} skipped: it needs {missing[mode]}")
            continue
        for order, (name, run) in itertools.product(("random",) if mode == "tsan" else cpu.ORDERS, RUNS.items()):
            started, said = time.perf_counter(), "clean"
            try:
                with cpu.mode(mode, order=order, seed=1):
                    run("cpu")
            except cpu.KernelFault as fault:
                faults, said = faults + 1, f"FAULT: {fault}"
            print(f"{mode:8} {order:8} {name:26} {time.perf_counter() - started:6.1f} s  {said}", flush=True)
    return faults


def main(words):
    torch.manual_seed(0)
    os.environ["KERNEL_CHECK"] = "0"  # the tools should see our kernels, not the reductions that look at their inputs
    if words == ["--modes"]:
        return min(run_modes(), 1)
    run_all(device())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
