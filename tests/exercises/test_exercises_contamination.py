"""The checkers of lessons 12 and 13 accept the solution and refuse answers known to be wrong."""

import math

import pytest
from answers import accept_and_refuse

from helpers.exercises import contamination as exercises

TILE = 64


def reaches(seq_len, page_size):
    return -(-seq_len // page_size) * page_size < -(-seq_len // TILE) * TILE


def shortest_four(page_size):
    return [n for n in range(1, 257) if not reaches(n, page_size)][:4]


RIGHT = {
    "tile_loads_slot_0": [reaches, lambda n, page: -n % TILE > -n % page],
    "healthy_batch": [shortest_four, lambda page: list(reversed(shortest_four(page)))],
    "skip_one_slot": ["slot != reserved_skip_index", "!(slot == reserved_skip_index)"],
    "skip_a_set": [
        "slot >= 64 || !(reserved_skip_index >> slot & 1)",
        "slot > 63 || ((1ull << slot) & (unsigned long long)reserved_skip_index) == 0",
    ],
}
WRONG = {
    "tile_loads_slot_0": {
        "any partial tile": lambda n, page: n % TILE != 0,
        "a partial page": lambda n, page: n % page != 0,
        "always": lambda n, page: True,
        "never": lambda n, page: False,
        "the page after next": lambda n, page: (n // page + 1) * page < -(-n // TILE) * TILE,
        "pages of 16 only": lambda n, page: 1 <= n % TILE <= 48,
        "no tile at a full one": lambda n, page: -(-n // page) * page < (n // TILE + 1) * TILE,
        "not a bool": lambda n, page: int(reaches(n, page)),
        "nothing": lambda n, page: None,
    },
    "healthy_batch": {
        "full tiles, not the shortest": lambda page: [64, 128, 192, 256],
        "one poisoned": lambda page: [48, 49, 50, 51],
        "the same four times": lambda page: [64] * 4,
        "three": lambda page: shortest_four(page)[:3],
        "length 0": lambda page: [0, *shortest_four(page)[:3]],
        "for pages of 16": lambda page: [49, 50, 51, 52],
        "too long": lambda page: [64, 128, 192, 320],
        "nothing": lambda page: None,
    },
    "skip_one_slot": {
        "every row": "true",
        "no row": "false",
        "hard-coded 0": "slot != 0",
        "upside down": "slot == reserved_skip_index",
        "the row, not the slot": "row != reserved_skip_index",
        "all below": "slot > reserved_skip_index",
        "first lane only": "slot != reserved_skip_index && lane < 31",
        "first warp only": "slot != reserved_skip_index && part == 0",
        "32 bits": "static_cast<int>(slot) != static_cast<int>(reserved_skip_index)",
        "7 bits": "(slot & 127) != reserved_skip_index",
        "8 bits": "(slot & 255) != reserved_skip_index",
        "8 bits, signed": "static_cast<signed char>(slot) != reserved_skip_index",
        "16 bits": "static_cast<unsigned short>(slot) != reserved_skip_index",
        "16 bits, signed": "static_cast<short>(slot) != reserved_skip_index",
        "-1 skips everything": "slot != reserved_skip_index && reserved_skip_index >= 0",
        "no C++": "slot is not reserved_skip_index",
        "empty": " ",
        "not a string": True,
    },
    "skip_a_set": {
        "one slot": "slot != reserved_skip_index",
        "every row": "true",
        "upside down": "slot >= 64 || (reserved_skip_index >> slot & 1)",
        "shift of 64 and more": "!(reserved_skip_index >> (slot % 64) & 1)",
        "32 bits": "slot >= 32 || !(reserved_skip_index >> slot & 1)",
        "int shift": "slot >= 64 || !(static_cast<int>(reserved_skip_index) >> slot & 1)",
        "bit 63 forgotten": "slot >= 63 || !(reserved_skip_index >> slot & 1)",
        "lowest bit only": "slot >= 64 || !(reserved_skip_index & 1)",
    },
}


test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises, RIGHT, WRONG)


def test_the_kernel_decides_which_lengths_are_poisoned():
    """The checkers of lesson 12 ask the kernel; it agrees with the rule for every page size."""
    for page_size in (1, 7, 16, 32, 64):
        expected = tuple(reaches(n, page_size) for n in range(1, 201))
        assert exercises.poisoned_by_slot_0(page_size, 200) == expected
    assert math.isclose(sum(exercises.poisoned_by_slot_0(16, 64)) / 64, 0.75)


def test_a_kernel_without_the_predicate_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "store_cache.cu").write_text("// nothing to see\n")
    monkeypatch.setattr(exercises, "KERNELS", tmp_path)
    with pytest.raises(ValueError, match="slot != reserved_skip_index"):
        exercises.kernel_with("true")
