"""Checkers of the exercises in lessons 14, 23, 24 and 32. How a checker works: checks.py."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
import torch

from helpers.arrays.inputs import generator, page_table
from helpers.arrays.memory import is_poison, poisoned
from helpers.kernel import compile_cuda, device, launch
from helpers.operations.leave_in_shared import left_in_shared
from helpers.operations.topk_transform import topk_transform
from helpers.proof import narrowing
from helpers.proof.reference import exact_positions

from .checks import NotYet, checker, equal, require

PAGE_SIZE = 64

Select = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def selection(overflow: str, max_ties: int = 1024) -> Select:
    """select(scores fp32 [B, L], seq_lens int32 [B], k) -> positions int64 [B, k], by the kernel of that variant.

    What nobody writes holds positions 0 to 2047, as after a top-k of an earlier row: plausible, and no kernel dies.
    Runs on the CPU build, on any machine: there, what is left in shared memory is sure.
    """

    def select(scores: torch.Tensor, seq_lens: torch.Tensor, k: int) -> torch.Tensor:
        table = page_table(len(scores), -(-max(scores.shape[1], 2048) // PAGE_SIZE))
        raw = poisoned((len(scores), k), torch.int32)
        with left_in_shared(torch.arange(2048, dtype=torch.int32), "cpu"):
            topk_transform(scores, seq_lens, table, k, PAGE_SIZE, overflow, max_ties, raw_out=raw)
        return raw.long()

    return select


# ---------------------------------------------------------------- lesson 23


def _no_minus_inf(scores, seq_lens, k):
    positions = exact_positions(scores, seq_lens, k)
    chosen = scores.gather(1, positions.clamp(min=0))
    return torch.where(chosen == -math.inf, -1, positions)


def _next_best(scores, seq_lens, k):
    """Instead of the last position chosen, the one that would come next."""
    positions, one_more = (exact_positions(scores, seq_lens, n) for n in (k, k + 1))
    for row, more in zip(positions, one_more, strict=True):
        if int((more >= 0).sum()) == k + 1:
            extra = more[~torch.isin(more, row)]
            row[-1] = extra[0]
    return positions


def _last_of_equals(scores, seq_lens, k):
    positions = torch.full((len(scores), k), -1)
    for row, length, chosen in zip(scores, seq_lens.tolist(), positions, strict=True):
        mirrored = exact_positions(row[:length].flip(0)[None], torch.tensor([length]), k)[0]
        chosen.copy_(torch.where(mirrored < 0, -1, length - 1 - mirrored))
    return positions


def _only_the_start(scores, seq_lens, k):
    """What a cap does that only long rows reach: it looks at their first 65536 scores."""
    return exact_positions(scores, seq_lens.clamp(max=65536), k)


def _zeros_behind(scores, seq_lens, k):
    return exact_positions(scores, seq_lens, k).clamp(min=0)


def _same_sum(scores, seq_lens, k):
    """One chosen position moved up by 1, another one down: as many as before, and with the same sum."""
    positions = exact_positions(scores, seq_lens, k)
    for row, length in zip(positions, seq_lens.tolist(), strict=True):
        chosen = torch.zeros(length + 1, dtype=torch.bool)
        chosen[row[row >= 0]] = True
        chosen[length] = True  # nothing moves past the end
        up = (chosen[:-1] & ~chosen[1:]).nonzero().flatten()
        down = (~chosen[:-1] & chosen[1:]).nonzero().flatten() + 1
        pairs = [(int(a), int(b)) for a in up[:1] for b in down if b < length and abs(int(a) - int(b)) > 2]
        for a, b in pairs[:1]:
            row[row == a] = a + 1
            row[row == b] = b - 1
    return positions


def _doubled(place):
    """In a short row, the first token once more: in the place of the last one (-1), or behind it (0)."""

    def select(scores, seq_lens, k):
        positions = exact_positions(scores, seq_lens, k)
        for row, length in zip(positions, seq_lens.tolist(), strict=True):
            if 1 < length < k:
                row[length + place] = row[0]
        return positions

    return select


WRONG_SELECTIONS: dict[str, Select] = {
    "slots that nobody wrote": selection("unwritten"),
    "-1 in place of tokens": selection("sentinel"),
    "slots that say their own number": selection("position"),
    "the cap of 2048, from the next day's fix": selection("position", 2048),
    "-inf never chosen": _no_minus_inf,
    "NaN chosen first": lambda scores, n, k: exact_positions(scores.nan_to_num(math.inf, math.inf, -math.inf), n, k),
    "one token that is not among the best": _next_best,
    "the last of equal scores, not the first": _last_of_equals,
    "one length for all rows of a batch": lambda scores, n, k: exact_positions(scores, n[:1].expand_as(n), k),
    "nothing beyond position 65536": _only_the_start,
    "0 behind the end of a short row": _zeros_behind,
    "other tokens whose positions have the same sum": _same_sum,
    "a token twice in a short row": _doubled(0),
    "a token twice in a short row, and another one lost": _doubled(-1),
    "-1 before the tokens of a short row": lambda scores, n, k: exact_positions(scores, n, k).flip(1),
}


def _shuffled(scores, seq_lens, k):
    """The right positions in no particular order, -1 behind them: as good as sorted ones."""
    positions = exact_positions(scores, seq_lens, k)
    for row in positions:
        count = int((row >= 0).sum())
        row[:count] = row[:count][torch.randperm(count, generator=generator(23))]
    return positions


@checker
def missing_test(answer: Callable[[Select], bool]) -> str:
    """23: answer(select) -> whether select(scores, seq_lens, k) gives the k largest of each row."""
    for what, select in {"the exact kernel": selection("exact"), "a right one in another order": _shuffled}.items():
        got = answer(select)
        require(got is not None and got is not ..., "nothing is returned yet")
        require(isinstance(got, bool), f"your test should return True or False, not {got!r}")
        require(got, f"your test refuses {what}")
    for what, select in WRONG_SELECTIONS.items():
        require(answer(select) is False, f"your test lets a wrong selection pass: {what}")
    return f"your test lets 2 right selections pass and refuses all {len(WRONG_SELECTIONS)} wrong ones"


@checker
def safe_to_read(answer: Callable[[torch.Tensor, int, int, str], bool]) -> str:
    """23: answer(slots int32 [k], seq_len, num_slots, sentinel) -> whether that consumer reads only the cache."""
    for num_slots in (1000, 640, 4096):
        for what, slots, seq_len, trusted in _slot_lists(num_slots):
            for sentinel, right in (("trust", trusted), ("check", True)):
                got = answer(slots.clone(), seq_len, num_slots, sentinel)
                require(got is not None and got is not ..., "nothing is returned yet")
                where = f"{what}, {seq_len} tokens, a cache of {num_slots} slots"
                equal(bool(got), right, f"{where}, consumer {sentinel!r}")
    return "both consumers, slots inside and outside, -1 where it is read and where it is not"


def _slot_lists(num_slots):
    """(what, slots int32 [64 or 54], seq_len, whether all that are read are slots of the cache)."""
    full = torch.randperm(num_slots, generator=generator(23))[:64].int()

    def with_one(place: int, value: int) -> torch.Tensor:
        slots = full.clone()
        slots[place] = value
        return slots

    ends = with_one(3, num_slots - 1)
    ends[4] = 0
    cases = [("slots of the cache", full, 500, True), ("the first and the last slot", ends, 500, True)]
    cases += [(f"slot {bad} among them", with_one(5, bad), 500, False) for bad in (-1, num_slots, -70000, 2**30)]
    cases += [("-1 in the last slot", with_one(63, -1), 64, False), ("-1 in the first slot", with_one(0, -1), 1, False)]
    behind = torch.cat([full[:10], torch.full((54,), -1, dtype=torch.int32)])
    cases += [("-1 from slot 10 on", behind, 10, True), ("-1 from slot 10 on", behind, 11, False)]
    return [*cases, ("garbage behind the end", with_one(20, 2**30), 20, True), ("nothing", behind[10:], 0, True)]


# ---------------------------------------------------------------- lesson 24


@checker
def place(answer: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]) -> str:
    """24: answer(above bool [n], equal bool [n], wanted) -> int64 [n], each position's slot, -1 if not selected."""
    g = generator(24)
    cases = [("0100101", "1011010", 2), ("1111", "0000", 0), ("0000", "1111", 3), ("0000", "1111", 4), ("00", "10", 1)]
    masks = [([c == "1" for c in a], [c == "1" for c in e], wanted) for a, e, wanted in cases]
    for share in (0.1, 0.5):
        level = torch.rand(500, generator=g)
        masks.append(((level < share).tolist(), ((level >= share) & (level < 0.7)).tolist(), 40))
    for above, equal_, wanted in masks:
        above, equal_ = torch.tensor(above), torch.tensor(equal_)
        what = f"{len(above)} positions, {int(above.sum())} above, {int(equal_.sum())} equal, {wanted} of them wanted"
        equal(answer(above.clone(), equal_.clone(), wanted), narrowing.place(above, equal_, wanted), what)
    return "each position knows its slot from what comes before it, and nobody has to ask for one"


# Any exponent of ones with a fraction is NaN, whatever its sign and fraction.
NAN_BITS = (0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA00000, 0xFFC00000, 0xFF800001, 0xFFFFFFFF)


@checker
def key_of(answer: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """24: answer(scores fp32 [n]) -> int64 [n] keys: larger for larger scores, equal for equal ones, NaN lowest."""
    special = [-math.inf, -3.4e38, -2.0, -1.0, -1e-38, -1e-45, 0.0, 1e-45, 1e-38, 1.0, 1.0000001, 2.0, 3.4e38, math.inf]
    many = torch.randn(1000, generator=generator(24)).sort().values
    for what, scores in {"special values": torch.tensor(special), "Gaussian scores": many}.items():
        keys = answer(scores.clone())
        require(isinstance(keys, torch.Tensor), "nothing is returned yet")
        fits = keys.shape == scores.shape and keys.dtype == torch.int64
        require(fits, f"{what}: expected int64 {list(scores.shape)}, got {keys.dtype} {list(keys.shape)}")
        wrong = ((keys.diff() > 0) != (scores.diff() > 0)).nonzero().flatten().tolist()
        if wrong:
            low, high = scores[wrong[0] : wrong[0] + 2].tolist()
            raise NotYet(f"{what}: {low:g} is below {high:g}, their keys are {keys[wrong[0] : wrong[0] + 2].tolist()}")
    zeros = answer(torch.tensor([-0.0, 0.0]))
    require(int(zeros[0]) == int(zeros[1]), f"-0.0 equals 0.0, their keys are {zeros.tolist()}")
    for bits in NAN_BITS:
        bad = torch.tensor([bits, NAN_BITS[0]]).to(torch.uint32).view(torch.float32)
        nan, first_nan, lowest = answer(torch.cat([bad, torch.tensor([-math.inf])])).tolist()
        require(nan < lowest, f"a NaN of bits {bits:#x} and -inf have keys {nan} and {lowest}")
        require(nan == first_nan, f"NaNs of bits {bits:#x} and {NAN_BITS[0]:#x} have keys {nan} and {first_nan}")
    return "integers now sort as the scores do, -0.0 equals 0.0, and NaN comes last"


# ---------------------------------------------------------------- lesson 32


@checker
def bytes_of_topk(answer: Callable[[int, int, int], int]) -> str:
    """32: answer(batch, length, k) -> bytes that a top-k has to read and write at the least."""
    for batch, length, k in ((1, 8192, 2048), (64, 131072, 2048), (256, 65536, 512), (3, 100, 7)):
        got = answer(batch, length, k)
        require(got is not None and got is not ..., "nothing is returned yet")
        least = 4 * batch * (length + k)
        what = f"{batch} rows of {length} scores, k = {k}"
        require(got >= least, f"{what}: {got} bytes can't be enough, some scores or slots are left out")
        require(got <= 1.02 * least + 4 * batch, f"{what}: {got} bytes are more than it takes")
    return "each score is read once, each slot written once, four bytes each"


@checker
def cold_time(answer: Callable[[list[float], list[float], int], float]) -> str:
    """32: answer(with_launch, alone, n) -> median time of one launch; round by round, n launches each."""
    cases = [([100.0, 120.0, 104.0], [80.0, 96.0, 82.0], 2), ([7.0], [4.0], 1)]
    cases.append(([50.0, 90.0, 52.0, 51.0, 49.0], [40.0, 85.0, 41.0, 43.0, 40.0], 10))
    for with_launch, alone, n in cases:
        got = answer(list(with_launch), list(alone), n)
        require(got is not None and got is not ..., "nothing is returned yet")
        right = statistics.median(both - one for both, one in zip(with_launch, alone, strict=True)) / n
        what = f"with {with_launch}, alone {alone}, n = {n}"
        require(abs(float(got) - right) < 1e-9, f"{what}: got {got}, expected {right:g}")
    return "a machine that slows down for a round slows both, and the difference stays"


# ---------------------------------------------------------------- lesson 14


@checker
def guard_the_writer(answer: str) -> str:
    """14: answer = the text of store_mx in which no byte of slot `reserved` is written, and all others are."""
    require(isinstance(answer, str) and "\n" in answer, "the answer is the text of the kernel")
    kernel = compile_cuda(answer, ["store_mx"]).get_function("store_mx")
    where, rows = device(), torch.randn(5, 128, generator=generator(14))
    rows[[0, 2]] = math.nan
    for aims, reserved in (([0, 7, 0, 3, 9], 0), ([7, 0, 7, 3, 9], 7), ([0, 7, 0, 3, 9], -1), ([5, 1, 2, 3, 4], 0)):
        cache = [poisoned((10, 4), torch.uint8, where), poisoned((10, 128), torch.int8, where)]
        slots = torch.tensor(aims, dtype=torch.int32, device=where)
        launch(kernel, (5,), (128,), (rows.to(where), slots, *cache, np.int32(128), np.int32(reserved)))
        right = mx_blocks(rows)
        for what, mine, expected in zip(("scale", "value"), cache, right, strict=True):
            for slot in range(10):
                at = f"reserved = {reserved}, slot {slot}: {what}s"
                sources = [row for row, aim in enumerate(aims) if aim == slot and aim != reserved]
                if not sources:
                    require(bool(is_poison(mine[slot]).all()), f"{at} were written, and no row should go there")
                else:
                    equal(mine[slot].cpu(), expected[sources[-1]], at)
    return "the reserved slot keeps its values and its scales, and every other row arrives"


def mx_blocks(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What store_mx of lesson 14 makes of fp32 [n, width]: uint8 [n, width / 32] exponents, int8 [n, width]."""
    bits = (rows.view(torch.int32) & 0x7FFFFFFF).view(len(rows), -1, 32).amax(dim=2)
    exponents = bits >> 23
    scales = (exponents << 23).view(torch.float32).repeat_interleave(32, dim=1)
    finite = (exponents < 255).repeat_interleave(32, dim=1)
    values = torch.where(finite, (rows / scales * 63).round(), 0.0)
    return exponents.to(torch.uint8), values.nan_to_num().to(torch.int8)


@checker
def two_trash_slots(answer: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> str:
    """14: answer(slots, table, rows, spare_page, page_size) -> (slots [rows], table [rows, pages]), padded."""
    for live, rows, page_size in ((5, 8, 16), (1, 4, 1), (3, 3, 64)):
        g = generator(rows)
        slots = torch.randint(page_size, 20 * page_size, (live,), dtype=torch.int32, generator=g)
        table = torch.randint(1, 20, (live, 6), dtype=torch.int32, generator=g)
        got = answer(slots.clone(), table.clone(), rows, 20, page_size)
        require(got is not None and got is not ..., "nothing is returned yet")
        require(isinstance(got, tuple) and len(got) == 2, "two tensors are expected: slots and table")
        what = f"{live} requests in {rows} rows, pages of {page_size}, spare page 20"
        padding = rows - live
        equal(got[0], torch.cat([slots, torch.full((padding,), 20 * page_size, dtype=torch.int32)]), f"{what}: slots")
        equal(got[1], torch.cat([table, torch.zeros(padding, 6, dtype=torch.int32)]), f"{what}: table")
    return "padding rows write where nobody reads, and read where nobody writes"
