"""Figures of lesson 30. One claim each; the caption is given where they are shown."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Patch, Rectangle

from helpers.tools.canary_table import Answer

from . import AFTER, BEFORE, MEANING

# What a tool says to a canary: colour, hatch, text in the cell.
VERDICTS = {
    "caught": ("#009E73", "", "caught"),
    "every mode": ("#A6DCCB", "..", "caught"),
    "elsewhere": ("#E69F00", "//", "elsewhere"),
    "hangs": ("#D55E00", "xx", "hangs"),
    "silent": ("#FFFFFF", "", "silent"),
    "absent": ("#D9D9D9", "", "not run"),
}
NAMES = {
    "caught": "at the right line",
    "every mode": "likewise, by what every mode has",
    "elsewhere": "another line is blamed",
    "hangs": "no report in time",
    "silent": "nothing is said",
    "absent": "not run here",
}


def chain(axes: Axes, stages: list[str], speakers: list[tuple[str, int, bool]]) -> None:
    """The way from cause to symptom as boxes from left to right, and under each the tools that speak there.

    speakers: (tool, number of its stage, whether it ran just now; a stored transcript is drawn lighter).
    """
    for number, stage in enumerate(stages):
        box = {"boxstyle": "round,pad=0.02", "edgecolor": "#333333", "linewidth": 1.0}
        colour = MEANING["unwritten"].colour if number == 0 else "white"
        axes.add_patch(FancyBboxPatch((number + 0.06, 0), 0.86, 0.9, facecolor=colour, **box))
        axes.text(number + 0.49, 0.45, stage, ha="center", va="center", fontsize=8.5)
        if number:
            arrow = {"arrowstyle": "->", "color": "#333333"}
            axes.annotate("", (number + 0.03, 0.45), (number - 0.05, 0.45), arrowprops=arrow)
    heights = [0] * len(stages)
    for tool, number, live in speakers:
        y = -0.42 - 0.42 * heights[number]
        heights[number] += 1
        look = {"facecolor": AFTER.colour if live else "white", "edgecolor": AFTER.colour, "boxstyle": "round,pad=0.25"}
        axes.text(
            number + 0.49, y, tool, ha="center", va="center", fontsize=8.5,
            color="white" if live else "black", bbox=look,
        )  # fmt: skip
    axes.text(0.06, 1.12, "cause", fontsize=9, style="italic")
    axes.text(len(stages) - 0.08, 1.12, "symptom", fontsize=9, style="italic", ha="right")
    axes.set(xlim=(-0.02, len(stages) + 0.02), ylim=(-0.3 - 0.44 * max(heights), 1.35), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    handles = [Patch(facecolor=AFTER.colour, edgecolor=AFTER.colour, label="run just now"),
               Patch(facecolor="white", edgecolor=AFTER.colour, label="stored transcript")]  # fmt: skip
    axes.legend(handles=handles, loc="lower left", frameon=False, fontsize=8.5)


def crowded_rows(axes: Axes, rows: list[tuple[int, int]], k: int, cap: int) -> None:
    """Each printed row as (above, in_bin); the area in which slots stay unwritten is shaded."""
    above, in_bin = np.array(rows).reshape(-1, 2).T
    short = above < k - cap
    axes.axvspan(0, k - cap, color=MEANING["unwritten"].colour, alpha=0.35, linewidth=0)
    axes.plot(above[~short], in_bin[~short], "o", color=BEFORE.colour,
              label=f"all slots written: {int((~short).sum())}")  # fmt: skip
    axes.plot(above[short], in_bin[short], "X", color=MEANING["NaN"].colour, markersize=9,
              label=f"slots left unwritten: {int(short.sum())}\n(the number says how many)")  # fmt: skip
    for x, y in zip(above[short], in_bin[short], strict=True):
        axes.annotate(str(k - cap - x), (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=9)
    axes.set(xlabel="scores above the threshold bin", ylabel="scores in the bin")
    axes.set(xlim=(min(above.min() - 120, k - cap - 200), above.max() + 40), ylim=(cap, in_bin.max() + 60))
    axes.text(k - cap + 8, 0.98, f"k - {cap}", va="top", fontsize=9, transform=axes.get_xaxis_transform())
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)


def defect_table(axes: Axes, answers: dict[tuple[str, str], Answer], groups: dict[str, list[str]]) -> None:
    """A grid of defects x tools, coloured by verdict. groups: title above the columns -> its tools."""
    defects = list(dict.fromkeys(defect for defect, _ in answers))
    tools = [tool for columns in groups.values() for tool in columns]
    for row, defect in enumerate(defects):
        for column, tool in enumerate(tools):
            colour, hatch, text = VERDICTS[answers[defect, tool].verdict]
            style = {"facecolor": colour, "hatch": hatch, "edgecolor": "#888888", "linewidth": 0.6}
            axes.add_patch(Rectangle((column, row), 1, 1, **style))
            plate = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"} if hatch else None
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7.5, bbox=plate,
                      color="white" if colour == "#009E73" else "black")  # fmt: skip
    start = 0
    for title, columns in groups.items():
        axes.text(start + len(columns) / 2, -1.25, title, ha="center", va="bottom", fontsize=9, style="italic")
        axes.plot([start + 0.1, start + len(columns) - 0.1], [-1.15, -1.15], color="#333333", linewidth=0.8)
        start += len(columns)
        axes.plot([start, start], [0, len(defects)], color="black", linewidth=1.5)
    for column, tool in enumerate(tools):
        axes.text(column + 0.5, -0.1, tool, ha="center", va="bottom", fontsize=8.5)
    axes.set_xticks([])
    axes.set_yticks([i + 0.5 for i in range(len(defects))], defects, fontsize=8.5)
    axes.set(xlim=(0, len(tools)), ylim=(len(defects), -1.7))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    used = {answer.verdict for answer in answers.values()}
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="#888888", label=NAMES[verdict])
        for verdict, (colour, hatch, _) in VERDICTS.items()
        if verdict in used
    ]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.45, -0.01), frameon=False, fontsize=8.5,
        ncols=3, handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip
