"""Host side of kernels/topk_transform.cu and kernels/exact_topk.cu: validate, choose the launch, launch."""

import itertools

import numpy as np
import torch

from helpers.arrays import inputs
from helpers.arrays.memory import poisoned
from helpers.kernel import compile_cuda, launch

from . import Chosen
from .arguments import (
    check_values,
    require_apart,
    require_bool,
    require_contiguous,
    require_count,
    require_int,
    require_one_of,
    require_page_table_covers,
    require_pages,
    require_power_of_two,
    require_range,
    require_tensor,
)
from .exact_topk import MAX_LENGTH, launch_exact

OVERFLOWS = {"unwritten": "Unwritten", "sentinel": "Sentinel", "position": "Position"}
MAX_TOPK = 2048
THREADS = 1024


def topk_transform(scores: torch.Tensor, seq_lens: torch.Tensor, page_table: torch.Tensor, topk: int = 2048,
                   page_size: int = 64, overflow: str = "exact", max_ties: int = 1024, *, bin_bits: int = 12,
                   raw_out: torch.Tensor | None = None, out: torch.Tensor | None = None,
                   pdl: bool = False) -> torch.Tensor:  # fmt: skip
    """Slots of the `topk` largest of each row's first `seq_lens[b]` scores: int32 [B, topk].

    scores [B, L] fp32, rows may be strided; seq_lens [B] int32; page_table [B, pages] int32, pages of `page_size`
    tokens (a power of two). A position p becomes page_table[b, p // page_size] * page_size + p % page_size.
    A row of at most topk scores gives every position in order, then -1.

    overflow: "exact" selects the true topk by (score descending, position ascending), in ascending order of position:
    the same answer in every run and on every device. -0.0 equals 0.0; NaN ranks below everything.
    The others select by coarse bins, in no particular order, and differ in what becomes of slots that nobody fills,
    because more than `max_ties` scores share the threshold bin: "unwritten" keeps what shared memory held (the bug),
    "sentinel" writes -1 (sgl-project/sglang#30512), "position" writes the slot's own number (#30645, which also
    raised the cap to 2048). In their coarse bins a NaN score is the largest, where "exact" ranks it last.
    max_ties, bin_bits: their cap, and the leading bits of the fp16 score that name its bin (12 in the engine; lessons
    use fewer); "exact" has neither.
    out, raw_out: int32 [B, topk] to write to; raw_out gets positions instead of slots.
    pdl: launch with programmatic dependent launch ("exact" on a GPU; nothing changes on a CPU).

    Raises TypeError or ValueError before anything is written. Lengths and the page table's reach are read unless
    KERNEL_CHECK=0 or a CUDA graph is being captured; then a negative length counts as 0.
    """
    require_tensor("scores", scores, dtypes=(torch.float32,), ndim=2)
    (batch, length), device = scores.shape, scores.device
    require_tensor("seq_lens", seq_lens, dtypes=(torch.int32,), ndim=1, device=device, shape=(batch,))
    require_tensor("page_table", page_table, dtypes=(torch.int32,), ndim=2, device=device, shape=(batch, None))
    require_count("the number of rows in scores", batch)
    require_count("the number of pages in page_table", page_table.shape[1])
    require_contiguous("seq_lens", seq_lens)
    require_contiguous("page_table", page_table)
    require_int("topk", topk, 1, MAX_TOPK)
    require_power_of_two("page_size", page_size, 2**20)
    require_one_of("overflow", overflow, ("exact", *OVERFLOWS))
    if length > MAX_LENGTH:
        raise ValueError(f"scores has rows of {length}; they should have at most {MAX_LENGTH}")
    require_bool("pdl", pdl)
    if pdl and overflow != "exact":
        raise ValueError(f"pdl is True with overflow {overflow!r}; only 'exact' has a dependent launch")
    require_int("max_ties", max_ties, 1, 2048)
    require_int("bin_bits", bin_bits, 2, 12)
    outputs = {name: tensor for name, tensor in (("out", out), ("raw_out", raw_out)) if tensor is not None}
    for name, tensor in outputs.items():
        require_tensor(name, tensor, dtypes=(torch.int32,), ndim=2, device=device, shape=(batch, topk))
        require_contiguous(name, tensor)
    require_apart(outputs, {"scores": scores, "seq_lens": seq_lens, "page_table": page_table})
    if check_values():
        require_range("seq_lens", seq_lens, 0, length + 1, "a length")
        require_page_table_covers(seq_lens, page_table.shape[1], page_size)
        require_pages(page_table, seq_lens, page_size, 2**31 // page_size)  # a slot is an int32
    if out is None:
        out = torch.empty(batch, topk, dtype=torch.int32, device=device)
    if batch == 0:
        return out
    if overflow == "exact":
        launch_exact(scores, seq_lens, page_table, topk, page_size, out, raw_out, pdl)
        return out

    names = {key: f"topk_transform<Overflow::{value}, {max_ties}, {bin_bits}>" for key, value in OVERFLOWS.items()}
    module = compile_cuda("topk_transform.cu", list(names.values()), device=device.type)
    scalars = [np.int64(scores.stride(0)), np.int32(page_table.shape[1]), np.int32(topk)]
    scalars += [np.int32(page_size.bit_length() - 1)]
    arguments = (scores, seq_lens, page_table, out, raw_out, *scalars)
    launch(module.get_function(names[overflow]), (batch,), (THREADS,), arguments)
    return out


def launches(arch: str, shared_bytes: int) -> list[Chosen]:
    """With the smallest, the default and the largest of its sizes."""
    each = itertools.product(OVERFLOWS.values(), ("1, 2", "1024, 12", "2048, 12"))
    return [Chosen(f"topk_transform<Overflow::{o}, {sizes}>", THREADS) for o, sizes in each]


def try_variants(where: str) -> None:
    """The row seen in the field; rows for each way to settle ties (ballots, radix select); a row with nothing to
    choose."""
    ties = [inputs.row_with(1900, in_bin, 4096)[0] for in_bin in (150, 170, 200, 260, 700)]
    crowded = torch.stack([*ties, *inputs.scores("ReLU plateau", 2, 4096)])
    cases = [(inputs.field_row(), [7613], 2048), (crowded, [4096] * 6 + [100], 2048), (crowded[:2], [4096, 300], 512)]
    for overflow in OVERFLOWS.keys() - {"unwritten"}:
        for scores, lengths, topk in cases:
            table = inputs.page_table(len(scores), -(-scores.shape[1] // 64)).to(where)
            raw = poisoned((len(scores), topk), torch.int32, where)
            lens = torch.tensor(lengths, dtype=torch.int32, device=where)
            topk_transform(scores.to(where), lens, table, topk, overflow=overflow, raw_out=raw)
