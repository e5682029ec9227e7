"""Checkers of the exercises of lessons 12 and 13."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from helpers.arrays.memory import poisoned
from helpers.kernel import KERNELS, compile_cuda, device, launch
from helpers.operations.sliding_window_attention import sliding_window_attention
from helpers.proof.reference import store_cache_reference

from .checks import checker, require

THE_PREDICATE = "slot != reserved_skip_index"
INDEX_TYPES = {torch.int32: "int", torch.int64: "long long"}
SPLITS = (1, 4)
FAR_SLOTS = (65535, 65539)  # like -1 and 3 in 16 bits; for rows of one column, so that the cache stays small
PREDICATE_KERNELS = [f"store_cache<{index}, {split}, 4, false>" for index in INDEX_TYPES.values() for split in SPLITS]


# ---------------------------------------------------------------- lesson 12


@functools.cache
def poisoned_by_slot_0(page_size: int, longest: int) -> tuple[bool, ...]:
    """For each length 1 .. longest: whether the kernel's output is NaN when nothing but slot 0 holds NaN.

    Runs kernels/sliding_window_attention.cu on one batch with a request of each length.
    """
    where = device()
    pages = -(-longest // page_size)
    lengths = torch.arange(1, longest + 1, dtype=torch.int32)
    used = -(-lengths // page_size)
    table = torch.arange(1, pages + 1, dtype=torch.int32).repeat(longest, 1)
    table[torch.arange(pages) >= used[:, None]] = 0
    k_cache, v_cache = torch.ones(2, (pages + 1) * page_size, 1, 64, device=where)
    k_cache[0] = v_cache[0] = torch.nan
    q = torch.ones(longest, 1, 64, device=where)
    out = sliding_window_attention(q, k_cache, v_cache, table.to(where), lengths.to(where), 64, page_size)
    return tuple(out.isnan().any(dim=(1, 2)).tolist())


@checker
def tile_loads_slot_0(answer: Callable[[int, int], bool]) -> str:
    """12: answer(seq_len, page_size) -> whether the last tile of a request goes on into page 0."""
    for page_size in (16, 1, 7, 32, 64):
        for seq_len, poisoned_here in enumerate(poisoned_by_slot_0(page_size, 200), 1):
            got = answer(seq_len, page_size)
            require(got is not None and got is not ..., "nothing is returned yet")
            require(isinstance(got, bool), f"the answer should be True or False, not {got!r}")
            require(got == poisoned_here,
                    f"{seq_len} tokens in pages of {page_size}: you say {got}, the kernel "
                    f"{'reads slot 0' if poisoned_here else 'does not read slot 0'}")  # fmt: skip
    return "the kernel agrees for 200 lengths and 5 page sizes"


@checker
def healthy_batch(answer: Callable[[int], Sequence[int]]) -> str:
    """12: answer(page_size) -> the four shortest lengths that stay finite though slot 0 is NaN."""
    for page_size in (16, 32, 64, 1):
        fine = [n for n, bad in enumerate(poisoned_by_slot_0(page_size, 256), 1) if not bad]
        got = answer(page_size)
        require(got is not None and got is not ..., "nothing is returned yet")
        got = [int(n) for n in got]
        where = f"pages of {page_size}"
        require(len(got) == 4 and len(set(got)) == 4, f"{where}: four different lengths are wanted, got {got}")
        for n in got:
            require(1 <= n <= 256, f"{where}: a length of {n} is outside 1 to 256")
            require(n in fine, f"{where}: a request of {n} tokens turns NaN")
        require(sorted(got) == fine[:4], f"{where}: {got} stay finite, but there are shorter ones")
    return "slot 0 is NaN and every request of your batches is finite, for 4 page sizes"


# ---------------------------------------------------------------- lesson 13


def kernel_with(predicate: str) -> str:
    """The source of kernels/store_cache.cu, with `predicate` (a C++ condition) deciding which rows are copied."""
    source = (KERNELS / "store_cache.cu").read_text()
    if source.count(f"if ({THE_PREDICATE}) {{") != 1:
        raise ValueError(f"kernels/store_cache.cu should hold the line `if ({THE_PREDICATE}) {{` once")
    return source.replace(f"if ({THE_PREDICATE}) {{", f"if ({predicate}) {{")


def _rows_copied(module, indices, columns, argument, split):
    """Run a compiled store_cache on rows with distinct values.

    Returns, for each row, whether its slot holds it in K and in V; and whether every slot that no row aims at, or
    whose row was not copied, still holds every byte of its poison.
    """
    where, rows, slots = device(), len(indices), int(indices.max()) + 1
    k = torch.arange(1, rows * columns + 1, dtype=torch.float32, device=where).view(rows, columns)
    caches = [poisoned((slots, columns), torch.float32, where) for _ in range(2)]
    strides = [np.int64(4 * columns)] * 4
    scalars = [np.int32(rows), np.int32(4 * columns), np.int32(4 * columns), *strides, np.int64(slots)]
    kernel = module.get_function(f"store_cache<{INDEX_TYPES[indices.dtype]}, {split}, 4, false>")
    arguments = (k, -k, *caches, indices.to(where), *scalars, np.int64(argument))
    launch(kernel, (-(-rows * split // 4),), (128,), arguments)

    before = [poisoned((slots, columns), torch.float32) for _ in range(2)]
    caches = [cache.cpu() for cache in caches]
    copied = [all(torch.equal(cache[slot], row[i]) for cache, row in zip(caches, (k.cpu(), -k.cpu()), strict=True))
              for i, slot in enumerate(indices.tolist())]  # fmt: skip
    kept = torch.where(torch.tensor(copied), indices.long(), -1)
    expected = store_cache_reference(k.cpu(), -k.cpu(), *before, kept, reserved_skip_index=-1)
    clean = all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(caches, expected, strict=True))
    return copied, clean


def _check_predicate(predicate, cases, wanted):
    """Compile the kernel with `predicate`; every case must copy just the rows whose slot is wanted(slot, argument)."""
    require(isinstance(predicate, str) and predicate.strip(), "the predicate is a C++ condition, written as a string")
    module = compile_cuda(kernel_with(predicate), PREDICATE_KERNELS)
    for argument, slots in cases:
        for dtype in INDEX_TYPES:
            for split, columns in ((1, 1), (1, 70), (4, 128), (4, 512)):
                given = [*slots, *FAR_SLOTS] if columns == 1 else slots
                indices = torch.tensor(given, dtype=dtype)
                copied, clean = _rows_copied(module, indices, columns, argument, split)
                what = f"reserved_skip_index = {argument} ({columns} columns, {split} warps a row, {dtype} indices)"
                for row, slot in enumerate(given):
                    want = wanted(slot, argument)
                    does = "should be copied, all of it, and is not" if want else "should be skipped and is copied"
                    require(copied[row] == want, f"{what}: the row for slot {slot} {does}")
                require(clean, f"{what}: bytes that no row should reach were written")


@checker
def skip_one_slot(predicate: str) -> str:
    """13: predicate -> the C++ condition under which store_cache copies a row."""
    slots = [7, 0, 3, 79, 5, 1, 64, 2, 6, 131, 255, 259, 331]  # 131, 259: like 3 in 7 and 8 bits; 255: like -1
    cases = [(argument, slots) for argument in (0, -1, 5, 3, 79, 40, 331, 2**32 + 3)]
    _check_predicate(predicate, cases, lambda slot, reserved: slot != reserved)
    return "the reserved slot keeps its bytes, every other row arrives, and -1 switches the skip off"


@checker
def skip_a_set(predicate: str) -> str:
    """13: predicate -> when a row is copied, if bit s of reserved_skip_index means "skip slot s"."""
    slots = [7, 0, 3, 79, 5, 1, 64, 2, 63, 32, 62, 69, 65]
    masks = (0, 0b1, 0b101001, 1 << 32, 1 << 62, -1, -(1 << 63), 0x7FFFFFFFFFFFFFFF)
    cases = [(mask, slots) for mask in masks]
    _check_predicate(predicate, cases, lambda slot, mask: slot >= 64 or not mask >> slot & 1)
    return "each mask skips its own slots and no other, slots from 64 on are always copied"
