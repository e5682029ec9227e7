"""Random calls of the kernels: slots and bytes compared with plain torch on the same device, attention with float64.

    python -m helpers.sweep --rows 100000     rows for each kernel, some minutes on a GPU; fewer by default on a CPU
    KERNEL_MODE=checked python -m helpers.sweep --rows 200     the same under AddressSanitizer, on a CPU

Each batch draws its shape, input family, ragged lengths, k, page size and strides. Outputs start poisoned, and each
launch is repeated four times. The two attention kernels get a call for every five rows, of values at which attention
goes wrong. Prints a line a family; exit status 1 if a row is wrong or two repeats differ.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import patch

import torch

from helpers.arrays.inputs import SCORE_FAMILIES
from helpers.arrays.memory import poisoned
from helpers.operations.store_cache import DTYPES, store_cache
from helpers.operations.topk_transform import topk_transform
from helpers.proof.hard_values import sparse_call, window_call, wrong_rows
from helpers.proof.reference import exact_positions, slots_of

from .kernel import device

REPEATS = 4
ROWS = {"cuda": 100_000, "cpu": 600}
SPECIALS = (0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 65504.0, 1.0)


def _special_values(n, g):
    """The values at which an order of floats can go wrong, each many times."""
    return torch.tensor(SPECIALS)[torch.randint(0, len(SPECIALS), (n,), generator=g)]


FAMILIES = SCORE_FAMILIES | {"special values": _special_values}


@dataclass
class Tally:
    """rows: tried. wrong: rows with at least one wrong slot or byte. changed: launches whose repeat differed."""

    rows: int = 0
    wrong: int = 0
    changed: int = 0
    first: str = field(default="", repr=False)  # the first batch with a wrong row, so that it can be made again

    def add(self, wrong_rows: torch.Tensor, changed: int, batch: str) -> None:
        """Count a batch. wrong_rows: bool, one a row. changed: repeats that differed. batch: how to make it again."""
        self.rows += len(wrong_rows)
        self.wrong += int(wrong_rows.sum())
        self.changed += changed
        if not self.first and (changed or bool(wrong_rows.any())):
            self.first = batch


def _shapes(draw, rows, where):
    """(batch, length), in turn of short rows, which one block holds, longer ones, and few long ones that blocks share.

    Batches are small enough for each family to meet each kind of row several times.
    """
    elements, longest = (2**23, 2**20) if where == "cuda" else (2**15, 2**17)
    for low, high, most in itertools.cycle([(1, 8192, 2048), (8193, 65536, 256), (65537, longest, 6)]):
        length = round(math.exp(draw.uniform(math.log(low), math.log(high))))
        yield draw.randint(1, max(1, min(most, elements // length, rows // 100))), length


def sweep_exact_topk(where: str, rows: int, seed: int = 0) -> dict[str, Tally]:
    """Tallies by family of at least `rows` rows through topk_transform(overflow="exact")."""
    draw, tallies = random.Random(seed), {family: Tally() for family in FAMILIES}
    for number, (batch, length) in enumerate(_shapes(draw, rows, where)):
        family = list(FAMILIES)[number % len(FAMILIES)]
        topk = draw.choice((2048, 2048, 1024, 512, draw.randint(1, 2048)))
        page_size, pad = draw.choice((1, 16, 64, 256)), draw.choice((0, 0, 0, 1, 5))
        with torch.device(where):
            g = torch.Generator(where).manual_seed(seed + number)
            scores = FAMILIES[family](batch * (length + pad), g).view(batch, length + pad)[:, pad:]
            pages = -(-length // page_size)
            order = torch.randperm(batch * pages, generator=g) if draw.random() < 0.7 else torch.arange(batch * pages)
            table = (order.int() + 1).view(batch, pages)
            ragged = torch.randint(-4, length + 1, (batch,), generator=g)
            lens = torch.where(torch.rand(batch, generator=g) < 0.5, length, ragged).int()
        runs = []
        for _ in range(REPEATS):
            both = poisoned((2, batch, topk), torch.int32, where)
            with patch.dict(os.environ, KERNEL_CHECK="0"):  # unseen, a negative length counts as 0
                topk_transform(scores, lens, table, topk, page_size, out=both[0], raw_out=both[1])
            runs.append(both)
        positions = exact_positions(scores, lens, topk)
        expected = torch.stack([slots_of(table, positions, page_size), positions])
        wrong = (runs[0] != expected).any(2).any(0)
        changed = sum(not torch.equal(runs[0], other) for other in runs[1:])
        what = f"batch {number} of seed {seed}: {family}, [{batch}, {length}], k {topk}, page size {page_size}"
        tallies[family].add(wrong, changed, what)
        if sum(tally.rows for tally in tallies.values()) >= rows:
            return tallies


def sweep_store_cache(where: str, rows: int, seed: int = 0) -> dict[str, Tally]:
    """Tallies by dtype of at least `rows` rows of random bytes through store_cache; each byte of the caches counts."""
    draw, tallies = random.Random(seed), {str(dtype).removeprefix("torch."): Tally() for dtype in DTYPES}
    for number, dtype in enumerate(itertools.cycle(DTYPES)):
        batch, split = draw.randint(1, max(1, rows // 100)), draw.choice((0, 1, 2, 4))
        slots, pad = batch + draw.randint(1, 100), draw.choice((0, 16))
        unit = 128 * split if split else 4  # bytes that divide a row
        widths = [unit * draw.randint(1, 4096 // unit) for _ in "kv"]
        with torch.device(where):
            g = torch.Generator(where).manual_seed(seed + number)
            sources = [torch.randint(0, 256, (batch, pad + w), dtype=torch.uint8, generator=g)[:, pad:] for w in widths]
            indices = torch.randperm(slots, generator=g)[:batch]
            skip = draw.choice((-1, 0, draw.randrange(slots)))
            if skip >= 0:  # padding rows, all aimed at the slot to skip
                indices[torch.rand(batch, generator=g) < 0.2] = skip
        kept = indices != skip
        expected = [poisoned((slots, w), torch.uint8, where) for w in widths]
        for cache, source in zip(expected, sources, strict=True):
            cache[indices[kept]] = source[kept]
        index_type = draw.choice((torch.int32, torch.int64))
        runs = []
        for _ in range(REPEATS):
            caches = [poisoned((slots, w), torch.uint8, where) for w in widths]
            typed = [tensor.view(dtype) for tensor in (*sources, *caches)]
            store_cache(*typed, indices.to(index_type), num_split=split, reserved_skip_index=skip)
            runs.append(caches)
        differs = sum((mine != right).any(1) for mine, right in zip(runs[0], expected, strict=True)) > 0
        wrong = differs[indices]
        differs[indices] = False
        wrong |= differs.any()  # a slot that no row aims at was written: by which, nobody knows
        changed = sum(any(not torch.equal(a, b) for a, b in zip(runs[0], other, strict=True)) for other in runs[1:])
        what = f"batch {number} of seed {seed}: {dtype}, {batch} rows of {widths} bytes, split {split}, skip {skip}"
        tallies[str(dtype).removeprefix("torch.")].add(wrong, changed, what)
        if sum(tally.rows for tally in tallies.values()) >= rows:
            return tallies


def _sweep_attention(call, where, rows, seed):
    draw, tallies = random.Random(seed), {"fp32": Tally(), "bf16": Tally()}
    for number in range(-(-rows // 5)):
        kind, dtype, limit = (("fp32", torch.float32, 1e-6), ("bf16", torch.bfloat16, 8e-3))[number % 2]
        drawn = call(draw, where, dtype)
        for how, actual in drawn.run.items():
            wrong = wrong_rows(actual, drawn.expected[how], limit)
            tallies[kind].add(wrong, 0, f"call {number} of seed {seed}: {how}, {drawn.what}")
    return tallies


def sweep_sliding_window_attention(where: str, rows: int, seed: int = 0) -> dict[str, Tally]:
    """Tallies by dtype of rows // 5 calls of sliding_window_attention, with both maskings."""
    return _sweep_attention(window_call, where, rows, seed)


def sweep_sparse_attention(where: str, rows: int, seed: int = 0) -> dict[str, Tally]:
    """Tallies by dtype of rows // 5 calls of sparse_attention, with "trust" too where nothing is to be skipped."""
    return _sweep_attention(sparse_call, where, rows, seed)


# A function here for each kernel that can be swept: its name says which.
KERNELS: dict[str, Callable[..., dict[str, Tally]]] = {
    name.removeprefix("sweep_"): function for name, function in dict(globals()).items() if name.startswith("sweep_")
}


def report(kernel: str, tallies: dict[str, Tally]) -> bool:
    """Print a line a family and the sum. Returns whether all rows are right in every repeat."""
    print(f"\n{kernel:24} {'rows':>8} {'wrong':>6} {'repeats that differ':>20}")
    for name, tally in tallies.items():
        print(f"{name:24} {tally.rows:8} {tally.wrong:6} {tally.changed:20}")
    rows, wrong, changed = (sum(getattr(t, part) for t in tallies.values()) for part in ("rows", "wrong", "changed"))
    print(f"{'all':24} {rows:8} {wrong:6} {changed:20}", flush=True)
    for tally in tallies.values():
        if tally.first:
            print(f"first: {tally.first}")
    return wrong == changed == 0


def main(words: list[str]) -> int:
    where = device()
    parser = argparse.ArgumentParser(
        prog="python -m helpers.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS[where], help="for each kernel (default here: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    print(f"on {torch.cuda.get_device_name() if where == 'cuda' else 'the CPU build'}")
    right = []
    for kernel, sweep in KERNELS.items():
        started = time.perf_counter()
        right.append(report(kernel, sweep(where, arguments.rows, arguments.seed)))
        print(f"{time.perf_counter() - started:.1f} s", flush=True)
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
