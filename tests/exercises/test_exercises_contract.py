"""The checkers of lessons 14, 23, 24 and 32 accept the solution and refuse answers known to be wrong."""

import operator
import statistics

import pytest
import torch
from answers import accept_and_refuse

from helpers.arrays import inputs
from helpers.exercises import contract as exercises
from helpers.kernel import compile_to_cubin
from helpers.lessons import files
from helpers.proof import narrowing
from helpers.proof.reference import topk_reference
from helpers.sweep import FAMILIES
from helpers.tools.registers import registers

# ---------------------------------------------------------------- tests of lesson 23


def make_test(families=tuple(inputs.SCORE_FAMILIES), lengths=(6000, 4000, 500), long=True, k=2048, forgive=0,
              behind=True, ordered=False):  # fmt: skip
    """A test of top-k kernels as a reader may write it, with holes on request."""

    def test(select):
        batches = [(inputs.scores(family, len(lengths), 6000), lengths) for family in families]
        batches += [(inputs.scores("one fp16 bin", 1, 131072), [131072])] if long else []
        for scores, lens in batches:
            chosen = select(scores, torch.tensor(lens, dtype=torch.int32), k)
            for row, length, positions in zip(scores, lens, chosen, strict=True):
                right = topk_reference(row, length, k).sort().values
                first = positions[: len(right)] if behind else positions[positions >= 0]
                found = first if ordered else first.sort().values
                wrong = int((~torch.isin(right, found)).sum())
                if wrong > forgive or (not forgive and not torch.equal(found, right)):
                    return False
                if behind and bool((positions[len(right) :] != -1).any()):
                    return False
        return True

    return test


# ---------------------------------------------------------------- lesson 14

_lesson_14 = files.read(files.NOTEBOOKS / "14_other_ways_to_stop_a_nan.ipynb")
_names: dict[str, str] = {}
exec(next(cell.source for cell in _lesson_14.cells if cell.id == "mx"), _names)
MX = _names["MX"]
SCALE, VALUE, SLOT = "if (threadIdx.x % 32 == 0) scales[", "  values[", "slot = slots[row];"


def padded(slots, table, rows, spare_page, page_size, write=None, read=0):
    padding = rows - len(slots)
    written = slots.new_full((padding,), spare_page * page_size if write is None else write)
    return torch.cat([slots, written]), torch.cat([table, table.new_full((padding, table.shape[1]), read)])


def summary_test(summary, agree=operator.eq):
    """A test that compares a summary of each row, in which no token may follow a -1."""
    batches = [(inputs.scores(family, 3, 6000), [6000, 4000, 500]) for family in inputs.SCORE_FAMILIES]
    batches.append((inputs.scores("one fp16 bin", 1, 131072), [131072]))

    def test(select):
        for scores, lengths in batches:
            chosen = select(scores, torch.tensor(lengths, dtype=torch.int32), 2048)
            for row, length, positions in zip(scores, lengths, chosen, strict=True):
                right, n = topk_reference(row, length, 2048), min(length, 2048)
                right = torch.cat([right, torch.full((2048 - n,), -1)])
                if not agree(summary(positions), summary(right)) or bool((positions[:n] < 0).any()):
                    return False
        return True

    return test


RIGHT = {
    "guard_the_writer": [
        MX.replace(SLOT, SLOT + " if (slot == reserved) return;"),
        MX.replace(SCALE, "if (slot != reserved) " + SCALE).replace(VALUE, "if (slot != reserved)" + VALUE),
    ],
    "two_trash_slots": [padded],
    "missing_test": [make_test()],
    "safe_to_read": [lambda slots, n, size, who: who == "check" or bool(((slots[:n] >= 0) & (slots[:n] < size)).all())],
    "place": [narrowing.place, lambda above, same, wanted: ranked(above, same & (same.cumsum(0) <= wanted))],
    "key_of": [narrowing.key_of, lambda scores: signed_key(scores + 0.0)],
    "bytes_of_topk": [lambda batch, length, k: 4 * batch * (length + k), lambda batch, n, k: 4 * batch * (n + k + 1)],
    "cold_time": [lambda both, one, n: statistics.median(a - b for a, b in zip(both, one, strict=True)) / n],
}
WRONG = {
    "guard_the_writer": {
        "as it is": MX,
        "values only": MX.replace(VALUE, "if (slot != reserved)" + VALUE),
        "scales only": MX.replace(SCALE, "if (slot != reserved) " + SCALE),
        "always 0": MX.replace(SLOT, SLOT + " if (slot == 0) return;"),
        "upside down": MX.replace(SLOT, SLOT + " if (slot != reserved) return;"),
        "the row": MX.replace(SLOT, SLOT + " if (row == reserved) return;"),
        "NaN rows anywhere": MX.replace(SLOT, SLOT + " if (rows[row * width] != rows[row * width]) return;"),
        "no C++": MX + "\nskip",
        "nothing": None,
    },
    "two_trash_slots": {
        "written slot 0": lambda *batch: padded(*batch, write=0),
        "the spare page's number": lambda *batch: padded(*batch, write=batch[3]),
        "the last slot of the spare page": lambda *batch: padded(*batch, write=(batch[3] + 1) * batch[4] - 1),
        "a live slot": lambda *batch: padded(*batch, write=int(batch[0][-1])),
        "reads the spare page": lambda *batch: padded(*batch, read=batch[3]),
        "reads -1": lambda *batch: padded(*batch, read=-1),
        "64-bit": lambda *batch: tuple(part.long() for part in padded(*batch)),
        "no padding": lambda slots, table, *rest: (slots, table),
        "one tensor": lambda *batch: padded(*batch)[0],
        "nothing": lambda *batch: None,
    },
    "missing_test": {
        "Gaussian rows only": make_test(families=("randn",)),
        "no -inf": make_test(families=[name for name in inputs.SCORE_FAMILIES if name != "many -inf"]),
        "no NaN": make_test(families=[name for name in inputs.SCORE_FAMILIES if name != "NaN"]),
        "one length": make_test(lengths=(6000, 6000)),
        "no short row": make_test(lengths=(6000, 4000)),
        "no long row": make_test(long=False),
        "five forgiven": make_test(forgive=5),
        "-1 dropped": make_test(behind=False),
        "the sum of positions": summary_test(lambda found: (int((found >= 0).sum()), int(found[found >= 0].sum()))),
        "sets of tokens": summary_test(lambda found: set(found.tolist())),
        "members only": summary_test(lambda found: found, lambda found, right: bool(
            torch.isin(found, right).all() and ((found < 0) == (right < 0)).all())),
        "order demanded": make_test(ordered=True),
        "always": lambda select: True,
        "never": lambda select: False,
        "not a bool": lambda select: 1,
        "nothing": lambda select: None,
    },
    "safe_to_read": {
        "no upper end": lambda slots, n, size, who: who == "check" or bool((slots[:n] >= 0).all()),
        "no lower end": lambda slots, n, size, who: who == "check" or bool((slots[:n] < size).all()),
        "the whole list": lambda slots, n, size, who: who == "check" or bool(((slots >= 0) & (slots < size)).all()),
        "one past the end": lambda slots, n, size, who: who == "check"
        or bool(((slots[:n] >= 0) & (slots[:n] <= size)).all()),
        "slot 0 refused": lambda slots, n, size, who: who == "check"
        or bool(((slots[:n] > 0) & (slots[:n] < size)).all()),
        "one entry too few": lambda slots, n, size, who: who == "check"
        or bool(((slots[: n - 1] >= 0) & (slots[: n - 1] < size)).all()),
        "a cache of 1000": lambda slots, n, size, who: who == "check"
        or bool(((slots[:n] >= 0) & (slots[:n] < 1000)).all()),
        "nobody checks": lambda slots, n, size, who: bool(((slots[:n] >= 0) & (slots[:n] < size)).all()),
        "everybody checks": lambda slots, n, size, who: True,
        "nothing": lambda slots, n, size, who: None,
    },
    "place": {
        "all equal ones": lambda above, same, wanted: ranked(above, same),
        "the last equal ones": lambda above, same, wanted: ranked(
            above, same & (same.flip(0).cumsum(0).flip(0) <= wanted)
        ),
        "one equal too many": lambda above, same, wanted: ranked(above, same & (same.cumsum(0) <= wanted + 1)),
        "slots from 1": lambda above, same, wanted: narrowing.place(above, same, wanted) + 1,
        "above first, then equal": lambda above, same, wanted: torch.where(
            same & (same.cumsum(0) <= wanted), int(above.sum()) + same.cumsum(0) - 1,
            torch.where(above, above.cumsum(0) - 1, -1)),
        "0 for the rest": lambda above, same, wanted: narrowing.place(above, same, wanted).clamp(min=0),
        "int32": lambda above, same, wanted: narrowing.place(above, same, wanted).int(),
        "only those above": lambda above, same, wanted: ranked(above, same & False),
        "nothing": lambda above, same, wanted: None,
    },
    "key_of": {
        "the bits": lambda scores: scores.view(torch.int32).long(),
        "-0.0 below 0.0": lambda scores: signed_key(scores),
        "NaN on top": lambda scores: positive_first(scores + 0.0),
        "rounded to fp16": lambda scores: narrowing.key_of(scores.half().float()),
        "in steps of 1/1000": lambda scores: (scores.nan_to_num(-1e30) * 1000).clamp(-(2**60), 2**60).long(),
        "one NaN known": lambda scores: known_nan(scores, 0x7FC00000),
        "two NaNs known": lambda scores: known_nan(scores, 0x7FC00000, 0xFFC00000),
        "NaN by sign": lambda scores: narrowing.key_of(scores) - (scores.isnan() & scores.signbit()).long(),
        "NaN like -inf": lambda scores: narrowing.key_of(torch.where(scores.isnan(), -torch.inf, scores)),
        "upside down": lambda scores: -narrowing.key_of(scores),
        "a float": lambda scores: scores.double(),
        "nothing": lambda scores: None,
    },
    "bytes_of_topk": {
        "scores only": lambda batch, length, k: 4 * batch * length,
        "scores, not bytes": lambda batch, length, k: batch * (length + k),
        "one row": lambda batch, length, k: 4 * (length + k),
        "read twice": lambda batch, length, k: 4 * batch * (2 * length + k),
        "64-bit slots": lambda batch, length, k: 4 * batch * length + 8 * batch * k,
        "scores read and written": lambda batch, length, k: 8 * batch * (length + k),
        "nothing": lambda batch, length, k: None,
    },
    "cold_time": {
        "medians first": lambda both, one, n: (statistics.median(both) - statistics.median(one)) / n,
        "the mean": lambda both, one, n: statistics.mean(a - b for a, b in zip(both, one, strict=True)) / n,
        "not per launch": lambda both, one, n: statistics.median(a - b for a, b in zip(both, one, strict=True)),
        "the fastest": lambda both, one, n: min(a - b for a, b in zip(both, one, strict=True)) / n,
        "with the flush": lambda both, one, n: statistics.median(both) / n,
        "upside down": lambda both, one, n: statistics.median(b - a for a, b in zip(both, one, strict=True)) / n,
        "nothing": lambda both, one, n: None,
    },
}


def ranked(above, taken):
    taken = above | taken
    return torch.where(taken, taken.cumsum(0) - 1, -1)


def known_nan(scores, *known):
    bits = scores.view(torch.int32).long() & 0xFFFFFFFF
    return torch.where(torch.isin(bits, torch.tensor(known)), -(2**33), positive_first(scores + 0.0))


def positive_first(scores):
    bits = scores.view(torch.int32).long()
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def signed_key(scores):
    return torch.where(scores.isnan(), -(2**33), positive_first(scores))


test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises, RIGHT, WRONG)


@pytest.mark.parametrize("wrong", exercises.WRONG_SELECTIONS)
def test_each_wrong_selection_of_lesson_23_is_wrong(wrong):
    assert make_test()(exercises.selection("exact"))
    assert not make_test()(exercises.WRONG_SELECTIONS[wrong])


# ---------------------------------------------------------------- lesson 24


@pytest.mark.parametrize("family", FAMILIES)
def test_the_steps_of_lesson_24_select_what_the_reference_does(family):
    """In plain torch, in at most three rounds; what the range says of its members is true."""
    for length in (2049, 3000, 20000):
        row = FAMILIES[family](length, inputs.generator(length))
        assert torch.equal(narrowing.select(row, 2048), topk_reference(row, length, 2048).sort().values)
        keys = narrowing.key_of(row)
        steps = narrowing.narrow(keys, 2048)
        assert len(steps) <= 4
        for low, high, wanted, members in steps:
            assert members == int(((keys >= low) & (keys <= high)).sum())
            assert 2048 - wanted == int((keys > high).sum()) and 0 < wanted <= members


# ---------------------------------------------------------------- lesson 14


@pytest.mark.parametrize("arch", ("sm_80", "sm_90", "sm_120"))
def test_registers_are_read_from_machine_code(arch):
    """A kernel that keeps many values alive needs more registers than an empty one; both have a count."""
    source = """
    extern "C" __global__ void empty() {}
    extern "C" __global__ void many(float* p) {
      float kept[64];
      for (int i = 0; i < 64; ++i) kept[i] = p[i * blockDim.x + threadIdx.x];
      __syncthreads();
      for (int i = 0; i < 64; ++i) p[(63 - i) * blockDim.x + threadIdx.x] = kept[i];
    }
    """
    found = registers(compile_to_cubin(source, ["empty", "many"], arch))
    assert set(found) == {"empty", "many"} and 0 < found["empty"] < 64 <= found["many"] <= 255
