"""Figures of lessons 14, 23 and 24. Each takes its title and caption, which is also the alternative text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import Patch, Rectangle

from . import AFTER, BEFORE, MEANING, Look, show

PLATE = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none"}
# What became of a request, from good to bad: darker is worse.
OUTCOMES = {
    "right": Look("#009E73", "", ""),
    "finite": Look("#009E73", "", ""),
    "holds": Look("#009E73", "", ""),
    "wrong set": Look("#DDDDDD", "..", ""),
    "fails": Look("#A0A0A0", "//", ""),
    "neighbour": Look("#A0A0A0", "//", ""),
    "live token lost": Look("#A0A0A0", "//", ""),
    "fault": Look("#4A4A4A", "", ""),
    "NaN": MEANING["NaN"],
}


def _box(axes, look, x, y, width=1.0):
    style = {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "white", "linewidth": 2}
    axes.add_patch(Rectangle((x, y), width, 1, **style))


def matrix(outcomes: Mapping[str, Mapping[str, str]], title: str, caption: str) -> None:
    """A box for each line and column. outcomes: line -> column -> a key of OUTCOMES, which is written on the box."""
    columns = list(next(iter(outcomes.values())))
    figure, axes = plt.subplots(figsize=(8, 1.0 + 0.5 * len(outcomes)))
    for y, line in enumerate(outcomes.values()):
        for x, column in enumerate(columns):
            _box(axes, OUTCOMES[line[column]], x, y)
            axes.text(x + 0.5, y + 0.5, line[column], ha="center", va="center", fontsize=10, bbox=PLATE)
    axes.set(xlim=(0, len(columns)), ylim=(len(outcomes), 0))
    axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
    axes.set_yticks([y + 0.5 for y in range(len(outcomes))], list(outcomes))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, pad=12)
    show(figure, caption)


def composition(slots: Mapping[str, Mapping[str, int]], title: str, caption: str) -> None:
    """What a row's slots say. slots: producer -> kind -> how many; kinds as in the legend."""
    looks = {
        "one of the best": MEANING["real slot"],
        "another token": Look("#DDDDDD", "..", ""),
        "-1": MEANING["sentinel"],
        "no slot of the cache": MEANING["unwritten"],
    }
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.45 * len(slots)))
    for y, counts in enumerate(slots.values()):
        left = 0
        for kind, look in looks.items():
            count = counts[kind]
            style = {"color": look.colour, "hatch": look.hatch, "edgecolor": "#333333", "linewidth": 0.4}
            axes.barh(y, count, 0.7, left, **style)
            if count > 60:
                axes.text(left + count / 2, y, str(count), ha="center", va="center", fontsize=9, bbox=PLATE)
            left += count
    axes.set_yticks(range(len(slots)), list(slots))
    axes.set(ylim=(len(slots) - 0.5, -0.5), xlim=(0, left), xlabel="slots of the row", title=title)
    axes.tick_params(axis="y", length=0)
    patches = [Patch(facecolor=k.colour, hatch=k.hatch, edgecolor="#333333", label=name) for name, k in looks.items()]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, handleheight=1.4)
    show(figure, caption)


def around_the_cache(bytes_a_slot: int, caption: str) -> None:
    """Slots around the start of a cache, and where index -1 points."""
    figure, axes = plt.subplots(figsize=(8, 2.1))
    for slot in range(-3, 6):
        look = MEANING["reserved slot"] if slot == 0 else MEANING["real slot"] if slot > 0 else OUTCOMES["neighbour"]
        style = {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "#333333", "linewidth": 0.6}
        axes.add_patch(Rectangle((slot, 0), 1, 1, **style))
        axes.text(slot + 0.5, 0.5, str(slot), ha="center", va="center", bbox=PLATE)
    axes.plot([0, 0], [-0.35, 1.35], color="black", linewidth=2)
    axes.text(0.1, 1.4, "the cache starts here", va="bottom")
    axes.text(-0.1, 1.4, "somebody else's memory", ha="right", va="bottom")
    arrow = {"arrowstyle": "->", "linewidth": 2, "color": MEANING["sentinel"].colour}
    axes.annotate("", (-0.5, -0.02), (2.2, -0.75), arrowprops=arrow)
    axes.text(2.3, -0.75, f"index -1: {bytes_a_slot} bytes before the first slot", va="center")
    axes.set(xlim=(-3.1, 6.1), ylim=(-1.1, 1.9), title="-1 is an address too: the row before the cache")
    axes.axis("off")
    show(figure, caption)


def ways(names: Sequence[str], times: Sequence[tuple[float, float, float]], title: str, caption: str) -> None:
    """Bars of medians with quartiles, in seconds, relative to the first one."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.45 * len(names)))
    base = times[0][0]
    for y, (median, low, high) in enumerate(times):
        median, low, high = median / base, low / base, high / base
        look = AFTER if y else BEFORE
        axes.barh(y, median, 0.6, color=look.colour, hatch=look.hatch, edgecolor="white")
        axes.errorbar(median, y, xerr=[[median - low], [high - median]], color="black", capsize=4)
        axes.annotate(f"{median:.2f}", (high, y), (8, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(names)), names)
    widest = max(high for _, _, high in times) / base
    axes.set(xlim=(0, 1.15 * widest), ylim=(len(names) - 0.4, -0.6), title=title)
    axes.set_xlabel("time of a decode step's store and attention, relative to the first (median, quartiles)")
    show(figure, caption)


# ---------------------------------------------------------------- lesson 24


def placing(scores: Sequence[float], kinds: Sequence[str], slots: Sequence[int], title: str, caption: str) -> None:
    """A short row above, its result below, an arrow for each score selected.

    kinds: for each score "above", "equal" or "below" the last one wanted. slots: where it goes, -1 for nowhere.
    """
    looks = {"above": MEANING["real slot"], "equal": Look("#A6DCCB", "..", ""), "below": Look("#E8E8E8", "", "")}
    figure, axes = plt.subplots(figsize=(8, 2.6))
    count = sum(slot >= 0 for slot in slots)
    left = (len(scores) - count) / 2
    for position, (score, kind, slot) in enumerate(zip(scores, kinds, slots, strict=True)):
        style = {"facecolor": looks[kind].colour, "hatch": looks[kind].hatch, "edgecolor": "#333333", "linewidth": 0.6}
        axes.add_patch(Rectangle((position, 2.4), 1, 0.8, **style))
        axes.text(position + 0.5, 2.8, f"{score:g}", ha="center", va="center", bbox=PLATE)
        if slot >= 0:
            axes.add_patch(Rectangle((left + slot, 0), 1, 0.8, **style))
            axes.text(left + slot + 0.5, 0.4, str(position), ha="center", va="center", bbox=PLATE)
            arrow = {"arrowstyle": "->", "color": "#333333"}
            axes.annotate("", (left + slot + 0.5, 0.85), (position + 0.5, 2.38), arrowprops=arrow)
    axes.text(-0.2, 2.8, "scores", ha="right", va="center")
    axes.text(left - 0.2, 0.4, "positions selected", ha="right", va="center")
    axes.set(xlim=(-1.2, len(scores) + 0.1), ylim=(-0.1, 3.3), title=title)
    axes.axis("off")
    patches = [Patch(facecolor=k.colour, hatch=k.hatch, edgecolor="#333333", label=name) for name, k in looks.items()]
    axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handleheight=1.4)
    show(figure, caption)


def members_by_round(members: Mapping[str, Sequence[int]], title: str, caption: str) -> None:
    """How many scores are still in question after each round. members: name of a row -> counts, the first before it."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    looks = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"), ("X", "-"))
    for (name, counts), (marker, line) in zip(members.items(), looks, strict=False):
        axes.plot(range(len(counts)), counts, marker + line, label=name, markersize=7)
    axes.set(yscale="log", xlabel="rounds of narrowing", ylabel="scores in the range", title=title)
    axes.set_xticks(range(max(map(len, members.values()))))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    show(figure, caption)


def what_is_lost(missing: Mapping[str, int], lost: Mapping[str, float], k: int, title: str, caption: str) -> None:
    """Bars of an inexact selection: best tokens missing (of k), and the share of the scores' sum that they cost."""
    figure, both = plt.subplots(1, 2, figsize=(8, 0.9 + 0.4 * len(missing)), sharey=True)
    percent = {name: 100 * share for name, share in lost.items()}
    for axes, values, form in ((both[0], missing, "{:d}"), (both[1], percent, "{:.2g} %")):
        bars = axes.barh(range(len(values)), list(values.values()), 0.65, color="#0072B2")
        axes.bar_label(bars, [form.format(value) for value in values.values()], padding=4)
        axes.set_yticks(range(len(values)), list(values))
        axes.set(ylim=(len(values) - 0.4, -0.6), xlim=(0, 1.25 * max(*values.values(), 1)))
        axes.tick_params(axis="y", length=0)
    both[0].set_xlabel(f"best tokens missing, of {k}")
    both[1].set_xlabel("share of the sum of scores lost")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    show(figure, caption)
