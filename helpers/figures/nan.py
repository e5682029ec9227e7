"""Figures of lessons 10 and 11. Each ends in `show`, with a caption that is also the alternative text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from . import AFTER, BEFORE, MEANING, legend, paint, show

PLATE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}  # text stays readable on a hatch


def cells(axes: Axes, rows: Sequence[str], columns: Sequence[str], states: Sequence[Sequence[str]],
          texts: Sequence[Sequence[str]], *, width: float = 1.0) -> None:  # fmt: skip
    """Draw a table of boxes: states[row][column] is a key of MEANING, texts[row][column] is written on it.

    rows, columns: labels, may be empty strings. width: of a box, whose height is 1.
    """
    for y, (row_states, row_texts) in enumerate(zip(states, texts, strict=True)):
        for x, (state, text) in enumerate(zip(row_states, row_texts, strict=True)):
            paint(axes, state, x * width, y, width)
            plate = PLATE if MEANING[state].hatch else None
            axes.text((x + 0.5) * width, y + 0.5, text, ha="center", va="center", fontsize=9, bbox=plate)
    axes.set(xlim=(-0.02, len(columns) * width + 0.02), ylim=(len(rows) + 0.02, -0.02), aspect="equal")
    axes.set_xticks([(x + 0.5) * width for x in range(len(columns))], columns)
    axes.set_yticks([y + 0.5 for y in range(len(rows))], rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def number(value: float, form: str = ".2g") -> str:
    """A number as a cell shows it: NaN, inf, 0 where it is exactly that, or formatted."""
    if math.isnan(value):
        return "NaN"
    return format(value, form) if value and math.isfinite(value) else f"{value:g}"


def _figure_of(columns, rows, title, caption, *, named=True):
    """Columns of boxes as wide as the page. columns: label -> (a key of MEANING, text) a row. named: with a legend."""
    lines = list(zip(*columns.values(), strict=True))
    figure, axes = plt.subplots(figsize=(8, 1.1 + 0.33 * len(rows)))
    states, texts = ([[cell[part] for cell in line] for line in lines] for part in (0, 1))
    cells(axes, rows, list(columns), states, texts, width=18 / len(columns))
    axes.set_title(title)
    if named:
        legend(axes, [meaning for meaning in MEANING if any(meaning in line for line in states)])
    show(figure, caption)


def _number_cell(value, state="empty"):
    return "NaN" if math.isnan(value) else state, number(value)


# ---------------------------------------------------------------- lesson 10


def operations(a: torch.Tensor, results: Mapping[str, torch.Tensor]) -> None:
    """results: name of an operation -> what it makes of each element of a [n]."""
    rows = [result.tolist() for result in results.values()]
    columns = {f"a = {number(x)}": [_number_cell(row[i]) for row in rows] for i, x in enumerate(a.tolist())}
    caption = (
        "Five operations, four values of a. Multiplying by 0 and subtracting turn inf into NaN (orange, crossed) and "
        "keep NaN; where() never looks at the value it leaves out."
    )
    _figure_of(columns, list(results), "Arithmetic carries NaN, selection doesn't", caption, named=False)


def masked_product(weights: torch.Tensor, values: torch.Tensor, out: torch.Tensor) -> None:
    """weights [queries, keys] times values [keys, dim] is out [queries, dim], box by box."""
    parts = {"weights": weights, "values (V)": values, "output": out}
    ratios = [matrix.shape[1] for matrix in parts.values()]
    figure, all_axes = plt.subplots(1, 3, figsize=(8, 3.2), gridspec_kw={"width_ratios": ratios, "wspace": 0.15})
    tallest = max(matrix.shape[0] for matrix in parts.values())
    for axes, (name, matrix) in zip(all_axes, parts.items(), strict=True):
        lines = matrix.tolist()
        states = [["NaN" if math.isnan(value) else "empty" for value in line] for line in lines]
        texts = [[number(value, ".2f") for value in line] for line in lines]
        cells(axes, [""] * len(lines), [""] * len(lines[0]), states, texts)
        middle = len(lines) / 2
        axes.set_ylim(middle + tallest / 2 + 0.02, middle - tallest / 2 - 0.02)
        axes.set_xlabel(name)
    for axes, sign in zip(all_axes[1:], ("×", "="), strict=True):
        axes.text(-0.15, 0.5, sign, transform=axes.transAxes, ha="center", va="center", fontsize=16)
    title = "Two masked rows with weight 0 turn the whole output NaN"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    caption = (
        "The last two columns of weights are exactly 0. They meet the last two rows of V, which are NaN (orange, "
        "crossed), in every element of the output."
    )
    show(figure, caption)


def ways_to_mask(found: Mapping[str, Mapping[str, float]]) -> None:
    """found: name of a kernel -> where a bad value was -> an element of the output."""
    columns = {place: [_number_cell(row[place]) for row in found.values()] for place in next(iter(found.values()))}
    caption = (
        "First output element of four kernels (rows) with a bad value in one of three masked places (columns). Only "
        "the last row is free of NaN (orange, crossed)."
    )
    _figure_of(columns, list(found), "Only a kernel that selects values too is safe", caption, named=False)


# ---------------------------------------------------------------- lesson 11


def slots_and_pages(page_table: torch.Tensor, seq_lens: Sequence[int], page_size: int, pages: int) -> None:
    """The page tables of a few requests above the pool, with an arrow from each entry to its page."""
    figure, axes = plt.subplots(figsize=(8, 3.4))
    total = pages * page_size
    states, letters = ["empty"] * total, [""] * total
    states[0], letters[0] = "reserved slot", MEANING["reserved slot"].letter
    entries = page_table.shape[1]
    for request, length in enumerate(seq_lens):
        name = chr(ord("A") + request)
        left = (request + 0.5) * total / len(seq_lens) - entries
        axes.text(left + entries, -0.5, f"page table of {name} ({length} tokens)", ha="center", va="bottom")
        for entry, page in enumerate(page_table[request].tolist()):
            used = entry * page_size < length
            paint(axes, "real slot" if used else "padding", left + 2 * entry, 0, 2, 1.6)
            plate = None if used else PLATE
            axes.text(left + 2 * entry + 1, 0.8, str(page), ha="center", va="center", fontsize=9, bbox=plate)
            ends = {"xytext": (left + 2 * entry + 1, 1.7), "xy": ((page + 0.5) * page_size, 7.9)}
            look = {"color": "#333333"} if used else {"color": "#0072B2", "linestyle": "--"}
            axes.annotate("", **ends, arrowprops={"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, **look})
            for place in range(max(0, min(page_size, length - entry * page_size))):
                states[page * page_size + place], letters[page * page_size + place] = "real slot", name
    for slot, (state, letter) in enumerate(zip(states, letters, strict=True)):
        paint(axes, state, slot, 8, 1, 1.6)
        plate = PLATE if MEANING[state].hatch else None
        axes.text(slot + 0.5, 8.8, letter, ha="center", va="center", fontsize=8, bbox=plate)
    for page in range(pages):
        axes.plot([page * page_size] * 2, [7.8, 9.8], color="black", linewidth=1.4)
        axes.text((page + 0.5) * page_size, 10, f"page {page}", ha="center", va="top", fontsize=8)
    axes.set(xlim=(-0.3, total + 0.3), ylim=(11, -1.6), xticks=[], yticks=[])
    axes.set_title("Every padded entry of every page table names page 0, which nobody owns")
    axes.spines[:].set_visible(False)
    legend(axes, ["real slot", "reserved slot", "padding"], loc="lower left", bbox_to_anchor=(0, -0.16), ncols=3)
    caption = (
        "Above, three page tables; below, the pool. Green entries point to pages in which the request has tokens (its "
        "letter). All padded entries point to page 0, with slot 0."
    )
    show(figure, caption)


def replays(slots: Mapping[str, Sequence[int]]) -> None:
    """slots: name of a replay -> the slot that each row of the bucket aims at; 0 means padding."""
    columns = {
        name: [
            ("real slot", f"request {row} → slot {slot}")
            if slot
            else ("padding", f"request {row} of replay 1 → slot 0")
            for row, slot in enumerate(aims)
        ]
        for name, aims in slots.items()
    }
    caption = (
        "Each column is a replay, each box a row: whose hidden state it holds, and the slot that its key and value go "
        "to. In replays 2 and 3, rows 5 to 7 (dotted) still hold replay 1's requests."
    )
    title = "Rows 5 to 7 go on computing for requests that have left, and aim at slot 0"
    _figure_of(columns, _row_names(len(next(iter(slots.values())))), title, caption)


def first_nan(stages: Mapping[str, torch.Tensor], slots: Sequence[int]) -> None:
    """stages: name -> float [bucket, width] at that stage of a step. slots: where each row goes; 0 means padding."""
    columns = {
        name: [
            _number_cell(value, "real slot" if slot else "padding") for value, slot in zip(firsts, slots, strict=True)
        ]
        for name, firsts in ((name, rows[:, 0].tolist()) for name, rows in stages.items())
    }
    columns["aims at"] = [("real slot" if slot else "reserved slot", f"slot {slot}") for slot in slots]
    caption = (
        "First element of each row at each stage of one step. Rows 5 to 7 start finite, turn NaN (orange, crossed) in "
        "layer 0's attention, and end as layer 1's key and value for slot 0."
    )
    title = "A row that attends to nothing becomes a NaN key and value, aimed at slot 0"
    _figure_of(columns, _row_names(len(slots)), title, caption)


def _row_names(count):
    return [f"row {row}" for row in range(count)]


def draft_lengths(lengths: Mapping[str, Sequence[int]]) -> None:
    """The length that each draft token sees; below zero is shaded. lengths: name -> one length a draft token."""
    figure, axes = plt.subplots(figsize=(8, 3.8))
    looks = (("o", AFTER), ("X", BEFORE))
    lowest = min(min(values) for values in lengths.values())
    for (name, values), (marker, look) in zip(lengths.items(), looks, strict=True):
        axes.plot(range(len(values)), values, marker, color=look.colour, markersize=9, label=name)
        for draft, value in enumerate(values):
            label = f"{value}, read as unsigned: {value % 2**32:,}" if value == lowest and value < 0 else str(value)
            axes.annotate(label, (draft, value), (9, 0), textcoords="offset points", va="center", fontsize=9)
    axes.axhspan(lowest - 1, 0, color=MEANING["NaN"].colour, alpha=0.15, linewidth=0)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(xlabel="draft token", ylabel="length it attends to", ylim=(lowest - 1, None))
    axes.set_title("With 6 draft tokens, a padded length of 1 goes below zero")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    caption = (
        "Length that each of six draft tokens attends to. The live row's are positive; four of the padded row's fall "
        "into the shaded area below zero, and a kernel may read them as unsigned."
    )
    show(figure, caption)
