"""Figures of lessons 12 and 13: how NaN travels from slot 0 to a request, and what the skip changes.

Each takes its title and its caption, which is also the alternative text, and ends in `show`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from helpers.bench.timing import Timing

from . import AFTER, BEFORE, MEANING, legend, paint, show, slot_map

QUIET = "#BBBBBB"  # an arrow that carries nothing but numbers
PLATE = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
RIGHT = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False, "handleheight": 1.4}


def flow(writes: Sequence[tuple[str, int, bool]], loads: Sequence[tuple[str, Sequence[int], bool]],
         title: str, caption: str) -> None:  # fmt: skip
    """Batch rows, the slots they write, and the requests that load these slots, from left to right.

    writes: (row's name, slot, whether it writes NaN). loads: (request's name, slots it loads, whether its output is
    NaN). Slots that nobody wrote are left out. Slot 0 is the reserved one.
    """
    figure, axes = plt.subplots(figsize=(8, 4.2))
    slots = sorted({slot for _, slot, _ in writes})
    nan_slots = {slot for _, slot, is_nan in writes if is_nan}
    height = max(len(writes), len(loads), len(slots))
    at = {slot: (i + 0.5) * height / len(slots) for i, slot in enumerate(slots)}
    for i, (name, slot, is_nan) in enumerate(writes):
        y = (i + 0.5) * height / len(writes)
        _box(axes, "padding" if slot == 0 else "real slot", 0, y, name)
        _arrow(axes, (1.3, y), (3.9, at[slot]), is_nan)
    for slot in slots:
        usual = "reserved slot" if slot == 0 else "real slot"
        _box(axes, "NaN" if slot in nan_slots else usual, 4, at[slot], f"slot {slot}")
    for i, (name, loaded, is_nan) in enumerate(loads):
        y = (i + 0.5) * height / len(loads)
        for slot in slots:
            if slot in loaded:
                _arrow(axes, (5.3, at[slot]), (7.9, y), slot in nan_slots)
        _box(axes, "NaN" if is_nan else "real slot", 8, y, name)
    for x, text in ((0.6, "rows that write"), (4.6, "slots of this layer"), (8.6, "requests that load")):
        axes.text(x, -0.2, text, ha="center", va="center")
    axes.set(xlim=(-0.1, 9.4), ylim=(height, -0.6), title=title)
    axes.axis("off")
    _name(axes, {"real slot": "finite", "padding": "padding row", "NaN": "NaN"})
    show(figure, caption)


def _box(axes, meaning, x, y, text):
    paint(axes, meaning, x, y - 0.34, 1.2, 0.68)
    axes.text(x + 0.6, y, text, ha="center", va="center", fontsize=8, bbox=PLATE)


def _arrow(axes, start, end, is_nan):
    look = {"color": MEANING["NaN"].colour, "linewidth": 2.2} if is_nan else {"color": QUIET, "linewidth": 1.0}
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0} | look)


def tile_lanes(rows: Sequence[tuple[str, Sequence[str], Sequence[int]]], title: str, caption: str) -> None:
    """The lanes of each request's last tile, and over them the page that each run of lanes comes from.

    rows: (request's name, a key of MEANING for each lane, page of each lane).
    """
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.55 * len(rows)))
    for y, (_, states, pages) in enumerate(rows):
        for lane, state in enumerate(states):
            paint(axes, state, lane, 1.7 * y)
            if state == "NaN":
                axes.text(lane + 0.5, 1.7 * y + 0.5, "N", ha="center", va="center", fontsize=8, bbox=PLATE)
        for lane, page in enumerate(pages):
            if lane == 0 or page != pages[lane - 1]:
                axes.text(lane + 0.2, 1.7 * y - 0.08, f"page {page}", ha="left", va="bottom", fontsize=7)
                axes.plot([lane, lane], [1.7 * y - 0.5, 1.7 * y + 1], color="black", linewidth=1)
    width = len(rows[0][1])
    axes.set(xlim=(-0.3, width + 0.3), ylim=(1.7 * len(rows) - 0.5, -0.6), xlabel="lane of the last tile", title=title)
    axes.set_xticks(range(0, width + 1, 16))
    axes.set_yticks([1.7 * y + 0.5 for y in range(len(rows))], [name for name, *_ in rows])
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    labels = {"real slot": "a token", "empty": "own page,\nbehind the end", "padding": "page 0", "NaN": "slot 0: NaN"}
    _name(axes, labels)
    show(figure, caption)


def _name(axes, labels):
    """A legend for keys of MEANING under names of this figure's own."""
    look = {"edgecolor": "#333333", "linewidth": 0.4}
    patches = [Patch(label=label, facecolor=MEANING[key].colour, hatch=MEANING[key].hatch, **look)
               for key, label in labels.items()]  # fmt: skip
    axes.legend(handles=patches, **RIGHT)


def fates(names: Sequence[str], causes: Sequence[Sequence[str]], title: str, caption: str) -> None:
    """Requests x steps. causes[step][request]: "" for finite, else a short word for what made it NaN."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.4 * len(names)))
    for step, row in enumerate(causes):
        for y, cause in enumerate(row):
            paint(axes, "NaN" if cause else "real slot", step, y)
            if cause:
                axes.text(step + 0.5, y + 0.5, cause, ha="center", va="center", fontsize=8, bbox=PLATE)
    axes.set(xlim=(0, len(causes)), ylim=(len(names), 0), xlabel="decode step", title=title)
    axes.set_xticks([step + 0.5 for step in range(len(causes))], range(len(causes)))
    axes.set_yticks([y + 0.5 for y in range(len(names))], names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _name(axes, {"real slot": "finite", "NaN": "NaN, and why"})
    show(figure, caption)


def spread_by_layer(shares: Sequence[Sequence[float]], title: str, caption: str) -> None:
    """The share of NaN (0 to 1) after each layer, one line a layer. shares[step][layer]."""
    figure, axes = plt.subplots(figsize=(8, 3))
    styles = (("o", ":"), ("s", "--"), ("^", "-"), ("D", "-."))
    for layer in range(len(shares[0])):
        marker, line = styles[layer % len(styles)]
        values = [100 * row[layer] for row in shares]
        axes.plot(range(len(values)), values, line, marker=marker, markersize=6, label=f"after layer {layer}")
    axes.set(xlabel="decode step", ylabel="NaN in live rows (%)", ylim=(-5, 105), title=title)
    axes.set_xticks(range(len(shares)))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    show(figure, caption)


def poisoned_requests(counts: Mapping[str, int], most: int, title: str, caption: str) -> None:
    """How many requests of `most` turned NaN in each experiment, one line each."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.32 * len(counts)))
    for y, count in enumerate(counts.values()):
        for x in range(most):
            paint(axes, "NaN" if x < count else "real slot", x, y + 0.1, 0.95, 0.8)
        axes.text(most + 0.1, y + 0.5, f"{count} of {most}", va="center")
    axes.set_yticks([y + 0.5 for y in range(len(counts))], list(counts))
    axes.set(xlim=(0, most + 0.8), ylim=(len(counts), 0), xticks=[], title=title)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    _name(axes, {"real slot": "stayed finite", "NaN": "turned NaN"})
    show(figure, caption)


def slot_maps(maps: Mapping[str, Sequence[str]], title: str, caption: str) -> None:
    """One line of slots for each name; states as for figures.slot_map."""
    figure, lines = plt.subplots(len(maps), 1, figsize=(8, 0.6 + 0.95 * len(maps)))
    for axes, (name, states) in zip(lines, maps.items(), strict=True):
        slot_map(axes, states, len(states), letters=True)
        axes.set(ylabel="", yticks=[])
        axes.set_xticks([slot + 0.5 for slot in range(len(states))], range(len(states)))
        axes.set_title(name, fontweight="normal", fontsize=10)
        axes.get_legend().remove()
    legend(lines[0], [meaning for meaning in MEANING if any(meaning in states for states in maps.values())])
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    show(figure, caption)


def pieces(slots: Mapping[str, Sequence[int | None]], title: str, caption: str) -> None:
    """Where each piece of slot 0 came from, one line a name: the source row of each piece, None where nobody wrote."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.5 * len(slots)))
    sources = sorted({source for line in slots.values() for source in line if source is not None})
    shades, hatches = ("#56B4E9", "#D6ECF8", "#0B3C5D", "#2F8FC4"), ("..", "", "", "++")
    looks = {source: {"facecolor": shades[i % 4], "hatch": hatches[i % 4]} for i, source in enumerate(sources)}
    looks[None] = {"facecolor": MEANING["reserved slot"].colour, "hatch": MEANING["reserved slot"].hatch}
    for y, line in enumerate(slots.values()):
        width = 1 / len(line)
        for i, source in enumerate(line):
            axes.bar(i * width, 0.8, width, y + 0.1, align="edge", edgecolor="#333333", linewidth=0.3, **looks[source])
    axes.set_yticks([y + 0.5 for y in range(len(slots))], list(slots))
    axes.set(xlim=(0, 1), ylim=(len(slots), 0), xticks=[], title=title)
    axes.set_xlabel("slot 0, from its first byte to its last")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    labels = {source: "not written" if source is None else f"from row {source}" for source in looks}
    axes.legend(handles=[Patch(label=labels[s], edgecolor="#333333", **look) for s, look in looks.items()], **RIGHT)
    show(figure, caption)


def nan_counts(names: Sequence[str], before: Sequence[int], after: Sequence[int], title: str, caption: str) -> None:
    """The NaN in each request's output before and after the fix, as pairs of bars with their numbers."""
    figure, axes = plt.subplots(figsize=(8, 3))
    for shift, label, look, counts in ((-0.2, "before", BEFORE, before), (0.2, "after", AFTER, after)):
        places = [x + shift for x in range(len(names))]
        bars = axes.bar(places, counts, 0.38, color=look.colour, hatch=look.hatch, edgecolor="white", label=label)
        axes.bar_label(bars, padding=2, fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="NaN values in the output", ylim=(0, 1.15 * max(*before, 1)), title=title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    show(figure, caption)


def times(timings: Mapping[str, Timing], title: str, caption: str) -> None:
    """Medians with their quartiles. The names "before" and "after" have looks of their own."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.55 * len(timings)))
    looks = {"before": BEFORE, "after": AFTER}
    for y, (name, timing) in enumerate(timings.items()):
        look = looks.get(name, MEANING["empty"])
        median, low, high = (1e6 * value for value in (timing.median, timing.low, timing.high))
        axes.barh(y, median, 0.6, color=look.colour, hatch=look.hatch, edgecolor="#333333", linewidth=0.4)
        axes.errorbar(median, y, xerr=[[median - low], [high - median]], color="black", capsize=4)
        axes.annotate(f"{median:.1f} us", (high, y), (8, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(timings)), list(timings))
    widest = max(timing.high for timing in timings.values())
    axes.set(xlim=(0, 1.2e6 * widest), ylim=(len(timings) - 0.4, -0.6), title=title)
    axes.set_xlabel("time of one call (us): median and quartiles")
    show(figure, caption)
