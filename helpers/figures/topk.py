"""Figures of the lessons on the top-k, 20 to 24. One claim each; the caption is given where they are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from helpers.arrays.topk_bins import bin_start, coarse_bin, find_threshold

from . import AFTER, BEFORE, MEANING, Look

# Both are real slots, so both are green; the tie has dots.
LOOKS = {
    "above the bin": MEANING["real slot"],
    "tie": Look("#A6DCCB", "..", "t"),
    "below the bin": Look("#D9D9D9", "", ""),
    **MEANING,
}


def _patch(meaning):
    look = LOOKS[meaning]
    return {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "#333333", "linewidth": 0.4}


def _legend(axes, labels, **placement):
    """labels: meaning -> text."""
    patches = [Patch(label=text, **_patch(meaning)) for meaning, text in labels.items()]
    where = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False} | placement
    axes.legend(handles=patches, handleheight=1.4, **where)


def threshold_bins(axes: Axes, row: torch.Tensor, k: int, bits: int = 12, around: int = 16) -> None:
    """Bars of the histogram near the threshold bin of a row [L], coloured by what the selection makes of them."""
    counts = torch.bincount(coarse_bin(row.cpu(), bits), minlength=1 << bits)
    threshold, above = find_threshold(counts, k)
    first, last = max(0, threshold - around), min((1 << bits) - 1, threshold + around)
    for number in range(first, last + 1):
        place = number - threshold
        meaning = "tie" if place == 0 else "above the bin" if place > 0 else "below the bin"
        axes.bar(number, int(counts[number]), width=0.9, **_patch(meaning))
    in_bin = int(counts[threshold])
    labels = {
        "above the bin": f"above: {above}, all taken",
        "tie": f"threshold bin: {in_bin},\n{k - above} of them wanted",
        "below the bin": f"below: {len(row) - above - in_bin}, none taken",
    }
    _legend(axes, labels)
    step = max(1, (last - first) // 6)
    ticks = [threshold + i * step for i in range(-6, 7) if first <= threshold + i * step <= last]
    axes.set_xticks(ticks, [_start_label(number, bits) for number in ticks])
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(ylabel="scores in the bin", xlabel="where the bin starts (score); each bar is a bin")


def _start_label(number, bits):
    start = bin_start(number, bits)
    return "lowest" if np.isnan(start) else f"{start:.4g}"


def cut_through_bin(axes: Axes, ties: torch.Tensor, chosen: torch.Tensor) -> None:
    """The threshold bin's scores [E] along the axis, those chosen (bool [E]) above those left out."""
    looks = {True: ("chosen", "#009E73", "|"), False: ("left out", "#555555", "|")}
    for line, taken in enumerate((False, True)):
        name, colour, marker = looks[taken]
        mine = ties[chosen == taken].cpu()
        axes.plot(mine, torch.full_like(mine, line), marker, color=colour, markersize=26, markeredgewidth=1.0)
    names = [f"{looks[taken][0]}: {int((chosen == taken).sum())}" for taken in (False, True)]
    axes.set_yticks([0, 1], names)
    axes.set(ylim=(-0.6, 1.6), xlabel="score, from the lower to the upper end of one bin")
    axes.tick_params(axis="y", length=0)


def bin_members(axes: Axes, lengths: list[int], series: dict[str, list[int]], cap: int) -> None:
    """Members of the threshold bin by length of the row, up to three series, and the buffer's size as a line."""
    looks = (("o", "-", "#000000"), ("s", ":", "#777777"), ("^", "--", AFTER.colour))
    for (name, counts), (marker, style, colour) in zip(series.items(), looks, strict=False):
        axes.plot(lengths, counts, marker + style, color=colour, label=name)
    axes.axhspan(cap, 1e5, color=MEANING["unwritten"].colour, alpha=0.35, linewidth=0)
    axes.text(lengths[-1], 1.25 * cap, f"more than the {cap} that the buffer holds", ha="right", va="bottom")
    axes.set(xscale="log", yscale="log", ylabel="scores in the threshold bin")
    axes.set(xlim=(0.9 * lengths[0], 1.1 * lengths[-1]), ylim=(0.8, 5e4))
    axes.set_xticks(lengths, [f"{n // 1024}K" for n in lengths])
    axes.minorticks_off()
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)


def slot_grid(axes: Axes, states: list[str], columns: int = 64, labels: dict[str, str] | None = None) -> None:
    """A map of many slots, row by row from the top left. Neighbours of one state are drawn as one box.

    states: keys of LOOKS. labels: meaning -> legend text; by default the meaning and how many slots have it.
    """
    rows = -(-len(states) // columns)
    for row in range(rows):
        line = states[row * columns : (row + 1) * columns]
        start = 0
        for end in range(1, len(line) + 1):
            if end == len(line) or line[end] != line[start]:
                style = _patch(line[start]) | {"linewidth": 0}
                axes.add_patch(Rectangle((start, row), end - start, 1, **style))
                start = end
    axes.hlines(range(rows + 1), 0, columns, color="white", linewidth=0.4)
    axes.vlines(range(columns + 1), 0, rows, color="white", linewidth=0.4)
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal", xticks=[])
    axes.set_yticks([row + 0.5 for row in range(0, rows, 8)], [str(row * columns) for row in range(0, rows, 8)])
    axes.set_ylabel("first slot of the line")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    found = labels or {meaning: f"{meaning}: {states.count(meaning)}" for meaning in LOOKS if meaning in states}
    _legend(axes, found)


def missing_line(axes: Axes, above: list[int], missing: list[int], k: int, cap: int) -> None:
    """Unwritten slots as counted (dots) over the line k - above - cap."""
    grid = np.linspace(min(above), max(above), 500)
    axes.plot(grid, np.maximum(0, k - grid - cap), color="#333333", linewidth=1, label=f"max(0, {k} - above - {cap})")
    axes.plot(above, missing, "o", color="#F0E442", markeredgecolor="#333333", markersize=8, label="counted")
    axes.set(xlabel="scores above the threshold bin", ylabel="unwritten slots")
    axes.legend(frameon=False)


def sources(axes: Axes, rows: dict[str, tuple[int, int, int]], k: int) -> None:
    """One bar a row: who wrote its k slots. rows: name -> (above, ties, unwritten)."""
    kinds = ("above the bin", "tie", "unwritten")
    for line, counts in enumerate(rows.values()):
        left = 0
        for kind, count in zip(kinds, counts, strict=True):
            axes.barh(line, count, left=left, height=0.7, **_patch(kind))
            if count >= 0.05 * k:
                plate = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
                axes.text(left + count / 2, line, str(count), ha="center", va="center", fontsize=9, bbox=plate)
            left += count
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(xlim=(0, k), ylim=(len(rows) - 0.5, -0.5), xlabel=f"slots of the row, {k} in all")
    axes.tick_params(axis="y", length=0)
    _legend(axes, {kind: kind for kind in kinds})


def index_range(axes: Axes, slots: dict[str, torch.Tensor], num_slots: int) -> None:
    """Where indices point, on a log axis of their size, with the pool as a band; negative ones are hollow.

    slots: name -> indices (int [n]); one line of dots each.
    """
    axes.axvspan(0.5, num_slots, color=MEANING["real slot"].colour, alpha=0.25, linewidth=0)
    axes.axvline(num_slots, color=MEANING["real slot"].colour, linewidth=1.5)
    axes.text(num_slots**0.5, -0.62, f"the pool: {num_slots} slots", ha="center", va="center", color="#005C43")
    axes.text((num_slots * 2.0**32) ** 0.5, -0.62, "no slot of the pool", ha="center", va="center")
    spread = np.random.default_rng(0)
    for line, indices in enumerate(slots.values()):
        values = indices.cpu().double().numpy()
        height = line + spread.uniform(-0.28, 0.28, len(values))
        for negative in (False, True):
            mine = (values < 0) == negative
            face = "none" if negative else MEANING["unwritten"].colour
            axes.scatter(np.abs(values[mine]).clip(min=0.8), height[mine], s=22, facecolor=face, edgecolor="#333333")
    axes.set_yticks(range(len(slots)), list(slots))
    axes.set(xscale="log", xlim=(0.5, 2.0**32), ylim=(len(slots) - 0.4, -0.9), xlabel="slot number, without its sign")
    axes.scatter([], [], s=22, facecolor=MEANING["unwritten"].colour, edgecolor="#333333", label="positive")
    axes.scatter([], [], s=22, facecolor="none", edgecolor="#333333", label="negative")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    axes.tick_params(axis="y", length=0)


def faults(axes: Axes, above: Sequence[int] | torch.Tensor, in_bin: Sequence[int] | torch.Tensor,
           faulty: Sequence[bool] | torch.Tensor, k: int, cap: int) -> None:  # fmt: skip
    """One dot a row, at its two counts, those with a fault marked; the corner where slots go missing is shaded."""
    above, in_bin, faulty = (np.asarray(values) for values in (above, in_bin, faulty))
    top = 1.05 * max(in_bin.max(), cap)
    axes.add_patch(Rectangle((0, cap), k - cap, top - cap, facecolor="#F0E442", alpha=0.3, linewidth=0))
    axes.plot(above[~faulty], in_bin[~faulty], ".", color="#009E73", markersize=4, label=f"right: {(~faulty).sum()}")
    axes.plot(above[faulty], in_bin[faulty], "x", color="#333333", markersize=4, label=f"at fault: {faulty.sum()}")
    axes.set(xlim=(0, 1.02 * k), ylim=(0, top), xlabel="scores above the bin", ylabel="scores in the bin")
    axes.legend(loc="lower left", frameon=True, framealpha=0.9)


def times(axes: Axes, timings: dict, before: str, after: str) -> None:
    """Samples of two timings (names in `timings`) with their medians; the slowest tenth lies outside the picture."""
    spread = np.random.default_rng(0)
    unit, scale = ("ms", 1e3) if timings[before].median > 1e-3 else ("us", 1e6)
    samples = {name: scale * np.array(timings[name].samples) for name in (before, after)}
    for line, (name, look, marker) in enumerate(((before, BEFORE, "s"), (after, AFTER, "o"))):
        height = line + spread.uniform(-0.2, 0.2, len(samples[name]))
        axes.plot(samples[name], height, marker, color=look.colour, alpha=0.5)
        axes.plot([scale * timings[name].median] * 2, [line - 0.35, line + 0.35], color=look.colour, linewidth=2.5)
    low, high = np.quantile(np.concatenate(list(samples.values())), [0, 0.9])
    margin = 0.05 * (high - low) + 1e-3 * low
    axes.set_yticks([0, 1], [before, after])
    axes.set(xlim=(low - margin, high + margin), ylim=(1.6, -0.6), xlabel=f"time of one call, {unit}; bar: median")
    axes.tick_params(axis="y", length=0)
