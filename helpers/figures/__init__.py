"""Figures of the lessons: one colour, hatch and letter for each thing, the same in every lesson.

Every figure ends in `show(figure, caption)`: the caption says what to see and is also the alternative text.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from IPython.display import Image, Markdown, display
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter, MonthLocator, date2num
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle


class Look(NamedTuple):
    """How a thing is drawn: an Okabe-Ito colour, and a hatch and a letter for those who cannot tell it."""

    colour: str
    hatch: str
    letter: str


MEANING = {
    "real slot": Look("#009E73", "", ""),
    "reserved slot": Look("#E69F00", "//", "0"),
    "padding": Look("#56B4E9", "..", "p"),
    "NaN": Look("#D55E00", "xx", "N"),
    "unwritten": Look("#F0E442", "\\\\", "?"),
    "sentinel": Look("#CC79A7", "--", "-1"),
    "empty": Look("#FFFFFF", "", ""),
}
BEFORE = Look("#666666", "//", "")
AFTER = Look("#0072B2", "", "")

plt.rcParams.update(
    {
        "figure.facecolor": "white",
        "axes.facecolor": "white",
        "savefig.facecolor": "white",
        "figure.dpi": 100,
        "figure.figsize": (8.0, 3.4),
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": 0.6,
        "axes.prop_cycle": plt.cycler(color=["#0072B2", "#000000", "#E69F00", "#009E73", "#CC79A7"]),
    }
)


def show(figure: Figure, caption: str) -> None:
    """Display the figure with its caption, which is also its alternative text, and close it."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=160, bbox_inches="tight")
    plt.close(figure)
    display(Image(picture.getvalue(), format="png", alt=caption, width=800), Markdown(f"*{caption}*"))


def paint(axes: Axes, meaning: str, x: float, y: float, width: float = 1.0, height: float = 1.0) -> None:
    """Draw one box in the look of `meaning` (a key of MEANING) with its lower left corner at x, y."""
    axes.add_patch(Rectangle((x, y), width, height, **_patch(meaning)))


def _patch(meaning):
    look = MEANING[meaning]
    return {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "#333333", "linewidth": 0.4}


def legend(axes: Axes, meanings: Sequence[str], **placement: object) -> None:
    """Name the looks in a legend; by default to the right of the axes."""
    patches = [Patch(label=meaning, **_patch(meaning)) for meaning in meanings]
    where = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False} | placement
    axes.legend(handles=patches, handleheight=1.4, **where)


def slot_map(axes: Axes, states: Sequence[str], columns: int, *, letters: bool = False) -> None:
    """Draw one box a slot, row by row from the top left, with a legend; rows are named by their first slot.

    states: a key of MEANING for each slot. letters: also write each look's letter (up to about 100 slots).
    """
    for slot, state in enumerate(states):
        row, column = divmod(slot, columns)
        paint(axes, state, column, row)
        if letters:
            _letter(axes, state, column + 0.5, row + 0.5)
    rows = -(-len(states) // columns)
    axes.set(xlim=(-0.05, columns + 0.05), ylim=(rows + 0.05, -0.05), aspect="equal", xticks=[])
    if rows == 1:
        axes.set_yticks([])
        axes.set_xticks([slot + 0.5 for slot in range(len(states))], [str(slot) for slot in range(len(states))])
    else:
        labelled = range(0, rows, max(1, rows // 8))
        axes.set_yticks([row + 0.5 for row in labelled], [str(row * columns) for row in labelled])
        axes.set_ylabel("first slot of the row")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    legend(axes, [meaning for meaning in MEANING if meaning in states])


def _letter(axes, meaning, x, y):
    letter = MEANING[meaning].letter
    if letter:
        plate = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes.text(x, y, letter, ha="center", va="center", fontsize=8, bbox=plate)


def timeline(axes: Axes, events: Sequence[tuple[str, str, str, str]]) -> None:
    """Draw dated events, one line each, with its text beside its mark; a band groups those of one track.

    events: (date as "2026-07-08", track, "fix" or "open report", text), grouped by track, top to bottom.
    """
    dates = [date2num(datetime.date.fromisoformat(date)) for date, *_ in events]
    middle = (min(dates) + max(dates)) / 2
    looks = {"fix": ("o", AFTER), "open report": ("X", BEFORE)}
    for line, (when, (_, _, kind, text)) in enumerate(zip(dates, events, strict=True)):
        marker, look = looks[kind]
        axes.plot(when, line, marker, color=look.colour, markersize=9)
        side = 1 if when < middle else -1
        align = "left" if side == 1 else "right"
        axes.annotate(text, (when, line), (9 * side, 0), textcoords="offset points", ha=align, va="center")
    lines: dict[str, list[int]] = {}
    for line, (_, track, _, _) in enumerate(events):
        lines.setdefault(track, []).append(line)
    for mine in list(lines.values())[::2]:
        axes.axhspan(mine[0] - 0.5, mine[-1] + 0.5, color="#F2F2F2", zorder=0)
    axes.set_yticks([(mine[0] + mine[-1]) / 2 for mine in lines.values()], list(lines))
    axes.set(xlim=(min(dates) - 7, max(dates) + 3), ylim=(len(events) - 0.5, -0.5))
    axes.xaxis.set_major_locator(MonthLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%B %Y"))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    for kind, (marker, look) in looks.items():
        axes.plot([], [], marker, color=look.colour, markersize=9, label=kind)
    axes.legend(loc="upper right", frameon=False)
