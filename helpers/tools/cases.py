"""The programs that lesson 30 puts under tools: `python -m helpers.tools case NAME`, the same one under every tool.

decode_step    the case: one step as a server runs it, with the top-k of before the fix; it ends in a fault
late_error     the same, telling out of which call the error comes
fixed_step     the same step with both fixes; it ends well
select         the top-k alone: nothing raises, whatever its unwritten slots hold
staged_global  the top-k with its staging moved to global memory
lost_barrier   the top-k without the barrier between the last write and the first read of its staging
report_rows    the top-k with a printf, replayed as a CUDA graph over a stretch of traffic

Each takes the device, "cpu" or "cuda"; sizes, seeds and lines are the same on both.
"""

import os
import sys
import traceback

import numpy as np
import torch

from helpers import cpu
from helpers.arrays import inputs
from helpers.kernel import KERNELS, captured, compile_cuda, device, launch
from helpers.operations.leave_in_shared import left_in_shared
from helpers.operations.sparse_attention import sparse_attention
from helpers.operations.topk_transform import topk_transform

PAGES, DIM, SLOTS = 320, 64, 312_000  # of the server's one allocation: page numbers, then cache rows
LENGTH = 7613  # of the row seen in the field
TRANSFORM = "for (int i = threadIdx.x; i < topk; i += blockDim.x) emit(i, staged[i]);"
REPORT = (
    "if (threadIdx.x == 0 && num_in_bin > kMaxNumTie) "
    'printf("row %d: above %d, in bin %d\\n", row, num_above, num_in_bin);'
)


def server(where: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(page_table int32 [1, PAGES], cache fp32 [SLOTS, DIM]) in one allocation, as a server's pool is.

    Pages beyond the request's end are page 0, which belongs to nobody.
    """
    pool = torch.randn(PAGES + SLOTS * DIM, generator=inputs.generator(1)).to(where)
    table = pool[:PAGES].view(torch.int32).view(1, PAGES)
    table.zero_()[0, :119] = inputs.page_table(1, 119)[0].to(where)
    return table, pool[PAGES:].view(SLOTS, DIM)


def attention_tile() -> torch.Tensor:
    """int32 [4096]: what an attention kernel leaves in shared memory, the bits of a tile of softmax weights."""
    return torch.randn(64, 64, generator=inputs.generator(2)).softmax(dim=1).view(torch.int32).flatten()


def _row(where):
    return inputs.field_row().to(where), torch.tensor([LENGTH], dtype=torch.int32, device=where)


def choose(where: str, overflow: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(slots int32 [1, 2048], cache, length) of a top-k that runs right after an attention tile."""
    (row, length), (table, cache) = _row(where), server(where)
    nothing = torch.zeros_like(length)
    topk_transform(row, nothing, table, overflow=overflow)  # loads the kernel, which can touch shared memory
    with left_in_shared(attention_tile(), where):
        return topk_transform(row, length, table, overflow=overflow), cache, length


def attend(slots: torch.Tensor, cache: torch.Tensor, length: torch.Tensor, sentinel: str) -> torch.Tensor:
    """fp32 [1, 1, DIM]: attention over the chosen slots."""
    return sparse_attention(torch.ones(1, 1, DIM, device=cache.device), cache, slots, length, sentinel=sentinel)


def decode_step(where: str) -> None:
    """One step with the top-k of before the fix and a consumer that trusts it; prints a number where it survives."""
    print(float(attend(*choose(where, "unwritten"), "trust").sum()))


def fixed_step(where: str) -> None:
    """The same step with a sentinel and a consumer that checks."""
    print(float(attend(*choose(where, "sentinel"), "check").sum()))


def late_error(where: str) -> None:
    """A broken launch, then two innocent calls; prints what each raises."""
    chosen, fine = choose(where, "unwritten"), choose(where, "sentinel")
    calls = {
        "launch the attention": lambda: attend(*chosen, "trust"),
        "add two numbers": lambda: torch.ones(2, device=where).sum().item(),
        "launch a correct kernel": lambda: attend(*fine, "check"),
    }
    for name, call in calls.items():
        try:
            call()
            print(f"{name}: fine", flush=True)
        except Exception as error:
            print(f"{name}: {str(error).strip().splitlines()[0]}", flush=True)


def select(where: str) -> None:
    """The top-k of before the fix, and nobody reads its slots."""
    choose(where, "unwritten")


def spliced(before: str, after: str) -> str:
    """The text of topk_transform.cu with one place changed and every line still where it was.

    ValueError if `before` isn't there exactly once, or if lines would move.
    """
    text = (KERNELS / "topk_transform.cu").read_text()
    if text.count(before) != 1 or before.count("\n") != after.count("\n"):
        raise ValueError(f"{before!r} is there {text.count(before)} times, or lines would move")
    return text.replace(before, after)


def launch_topk(source: str, scores: torch.Tensor, lengths: torch.Tensor, extra: tuple = (), threads: int = 1024,
                k: int = 2048, max_ties: int = 1024) -> torch.Tensor:  # fmt: skip
    """Launch the top-k of a spliced source, without the fix; out int32 [batch, k]. extra: arguments after raw_out.

    Its page table is one page of 2**30 tokens, with neighbours: whatever a slot holds, the lookup finds a number.
    """
    name = f"topk_transform<Overflow::Unwritten, {max_ties}, 12>"
    kernel = compile_cuda(source, [name], device=scores.device.type).get_function(name)
    batch = len(scores)
    table = torch.zeros(batch + 4, dtype=torch.int32, device=scores.device)[2:-2]
    out = torch.empty(batch, k, dtype=torch.int32, device=scores.device)
    scalars = np.int64(scores.stride(0)), np.int32(1), np.int32(k), np.int32(30)
    launch(kernel, (batch,), (threads,), (scores, lengths, table, out, None, *extra, *scalars))
    return out


def staging_in_global() -> str:
    """The source whose staging is an argument, int32 [batch, 2048] in global memory, instead of shared memory."""
    text = spliced("__shared__ int staged[kMaxTopK];", "int* staged = staging + blockIdx.x * kMaxTopK;")
    return text.replace("int* __restrict__ raw_out,  ", "int* __restrict__ raw_out, int* staging,  ")


def staged_global(where: str) -> None:
    """The same with its staging in global memory, where a tool can see what was never written."""
    staging = torch.empty(1, 2048, dtype=torch.int32, device=where)
    if where == "cpu":
        cpu.mark_uninitialised(staging)
    launch_topk(staging_in_global(), *_row(where), extra=(staging,))


def without_barrier() -> str:
    """The source in which no barrier stands between the last write to the staging and its first read."""
    return spliced(f"  __syncthreads();\n\n  {TRANSFORM}", f"\n\n  {TRANSFORM}")


def lost_barrier(where: str) -> None:
    """64 of 512 scores by 128 threads: a race detector is slow."""
    row, length = inputs.row_with(40, 100, 512), torch.tensor([512], dtype=torch.int32)
    launch_topk(without_barrier(), row.to(where), length.to(where), threads=128, k=64, max_ties=128)


def with_report() -> str:
    """The source in which a row whose bin outgrows the buffer prints its two counts."""
    return spliced("\n\n  const int num_ties =", f"\n  {REPORT}\n  const int num_ties =")


def traffic(steps: int, batch: int) -> torch.Tensor:
    """fp32 [steps, batch, LENGTH]: mostly Gaussian rows; some have a crowded threshold bin."""
    g = inputs.generator(28)
    rows = torch.randn(steps * batch, LENGTH, generator=g)
    for i in range(steps * batch):
        above, in_bin = (int(torch.randint(low, high, (), generator=g)) for low, high in ((880, 1900), (1030, 1600)))
        if torch.rand((), generator=g) < 0.15:
            rows[i] = inputs.row_with(above, in_bin, LENGTH, seed=i)[0]
    return rows.view(steps, batch, LENGTH)


def report_rows(where: str, steps: int = 12, batch: int = 8) -> None:
    """Replay one captured launch for every step of the traffic; on a CPU, launch it."""
    scores = torch.zeros(batch, LENGTH, device=where)
    lengths = torch.zeros(batch, dtype=torch.int32, device=where)  # nothing to report yet

    def launch_once():
        launch_topk(with_report(), scores, lengths)

    replay = captured(launch_once) if where == "cuda" else launch_once
    lengths.fill_(LENGTH)
    for step in traffic(steps, batch):
        scores.copy_(step)
        replay()


CASES = {
    case.__name__: case
    for case in (decode_step, late_error, fixed_step, select, staged_global, lost_barrier, report_rows)
}


def run(name: str) -> int:
    """Run one case on device(). Exit status 0: nothing was raised; 1: something was; 2: there is no such case."""
    if name not in CASES:
        print(f"there is no case {name!r}; the cases are {', '.join(CASES)}", file=sys.stderr)
        return 2
    os.environ["KERNEL_CHECK"] = "0"  # as on a server: nobody looks at what the arrays hold
    try:
        CASES[name](device())
        if device() == "cuda":
            torch.cuda.synchronize()
    except Exception:
        traceback.print_exc()
        return 1
    return 0

