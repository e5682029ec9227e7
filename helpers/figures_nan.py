"""Figures of lessons 10 to 13. Each ends in `show`, with a caption that is also the alternative text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from .figures import AFTER, BEFORE, MEANING, legend, paint, show

PLATE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}  # text stays readable on a hatch


def cells(axes: Axes, rows: Sequence[str], columns: Sequence[str], states, texts, *, width: float = 1.0) -> None:
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


def number(value: float) -> str:
    """A number as a cell shows it: NaN, inf, or two digits."""
    if math.isnan(value):
        return "NaN"
    return f"{value:.2g}" if math.isfinite(value) else str(value)


def nan_table(table: Mapping[str, Mapping[str, float]], title: str, caption: str, *, width: float = 2.0) -> None:
    """One box a value, NaN in NaN's look. table: row label -> column label -> value, the same columns in each row."""
    rows, columns = list(table), list(next(iter(table.values())))
    values = [[float(table[row][column]) for column in columns] for row in rows]
    figure, axes = plt.subplots(figsize=(8, 1.1 + 0.38 * len(rows)))
    states = [["NaN" if math.isnan(value) else "empty" for value in line] for line in values]
    cells(axes, rows, columns, states, [[number(value) for value in line] for line in values], width=width)
    axes.set_title(title)
    show(figure, caption)


def masked_product(weights: torch.Tensor, values: torch.Tensor, out: torch.Tensor, title: str, caption: str) -> None:
    """weights [queries, keys] times values [keys, dim] is out [queries, dim], box by box."""
    names = ("weights", "values (V)", "output")
    ratios = [matrix.shape[1] for matrix in (weights, values, out)]
    figure, all_axes = plt.subplots(1, 3, figsize=(8, 3), gridspec_kw={"width_ratios": ratios, "wspace": 0.15})
    for axes, name, matrix in zip(all_axes, names, (weights, values, out), strict=True):
        lines = matrix.tolist()
        states = [["NaN" if math.isnan(value) else "empty" for value in line] for line in lines]
        texts = [[number(round(value, 2)) for value in line] for line in lines]
        cells(axes, [""] * len(lines), [""] * len(lines[0]), states, texts)
        axes.set_xlabel(name)
    for axes, sign in zip(all_axes[1:], ("×", "="), strict=True):
        axes.text(-0.15, 0.5, sign, transform=axes.transAxes, ha="center", va="center", fontsize=16)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    show(figure, caption)


def slots_and_pages(page_table: torch.Tensor, seq_lens: Sequence[int], page_size: int, pages: int,
                    title: str, caption: str) -> None:  # fmt: skip
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
    axes.set(xlim=(-0.3, total + 0.3), ylim=(11, -1.6), xticks=[], yticks=[], title=title)
    axes.spines[:].set_visible(False)
    legend(axes, ["real slot", "reserved slot", "padding"], loc="lower left", bbox_to_anchor=(0, -0.16), ncols=3)
    show(figure, caption)


def bucket_rows(replays: Mapping[str, Sequence[tuple[str, str]]], title: str, caption: str) -> None:
    """The rows of a static buffer, one column a replay. replays: name -> (a key of MEANING, text) for each row."""
    columns = list(replays.values())
    states = [[column[row][0] for column in columns] for row in range(len(columns[0]))]
    texts = [[column[row][1] for column in columns] for row in range(len(columns[0]))]
    figure, axes = plt.subplots(figsize=(8, 3.6))
    cells(axes, [f"row {row}" for row in range(len(states))], list(replays), states, texts, width=6)
    axes.set_title(title)
    legend(axes, [meaning for meaning in MEANING if any(meaning in line for line in states)])
    show(figure, caption)


def draft_lengths(lengths: Mapping[str, Sequence[int]], title: str, caption: str) -> None:
    """The length that each draft token sees; below zero is shaded. lengths: name -> one length a draft token."""
    figure, axes = plt.subplots(figsize=(8, 3))
    looks = (("o", AFTER), ("X", BEFORE))
    for (name, values), (marker, look) in zip(lengths.items(), looks, strict=True):
        axes.plot(range(len(values)), values, marker, color=look.colour, markersize=9, label=name)
        for draft, value in enumerate(values):
            axes.annotate(str(value), (draft, value), (9, 0), textcoords="offset points", va="center", fontsize=9)
    lowest = min(min(values) for values in lengths.values())
    axes.axhspan(lowest - 1, 0, color=MEANING["NaN"].colour, alpha=0.15, linewidth=0)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.text(3.6, lowest - 0.5, f"{lowest} read as unsigned: {lowest % 2**32:,}", fontsize=9, va="center")
    axes.set(xlabel="draft token", ylabel="length it attends to", title=title, ylim=(lowest - 1, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    show(figure, caption)
