"""Figures of lesson 31: what the small server's requests went through.

Each takes its title and its caption, which is also the alternative text, and ends in `show`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from matplotlib.patches import Patch

from helpers.proof.children import Outcome
from helpers.small_server.engine import Step
from helpers.small_server.task import Problem
from helpers.small_server.trial import Result, right_answers

from . import BEFORE, MEANING, legend, paint, show

FATES = ("right", "wrong", "NaN", "lost in a crash")
FATE_LOOKS = (MEANING["real slot"], MEANING["unwritten"], MEANING["NaN"], BEFORE)


def batch_over_time(steps: Sequence[Step], title: str, caption: str) -> None:
    """The rows of the batch in each decode step, and the step after which slot 0 holds NaN."""
    most = max(step.bucket for step in steps)
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.27 * most))
    for x, step in enumerate(steps):
        for y in range(step.bucket):
            live = y < len(step.requests)
            is_nan = live and step.requests[y] in step.nan_requests
            paint(axes, "NaN" if is_nan else "real slot" if live else "padding", x, y)
            if live:
                plate = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
                axes.text(x + 0.5, y + 0.5, step.requests[y], ha="center", va="center", fontsize=6, bbox=plate)
    poisoned = next((x for x, step in enumerate(steps) if step.slot_0_is_nan), None)
    if poisoned is not None:
        axes.axvline(poisoned, color="black", linewidth=2)
        axes.text(poisoned, -0.25, "slot 0 turns NaN", ha="left", va="bottom", fontsize=9)
    axes.set(xlim=(0, len(steps)), ylim=(most, -1.2), xlabel="decode step", ylabel="row of the batch", title=title)
    axes.set_yticks([y + 0.5 for y in range(most)], range(most))
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    legend(axes, ["real slot", "padding", "NaN"])
    for text, label in zip(axes.get_legend().get_texts(), ("a request", "padding", "a request\nwith NaN"), strict=True):
        text.set_text(label)
    show(figure, caption)


def plateau(scores: Sequence[float], above: int, topk: int, cap: int, title: str, caption: str) -> None:
    """One row of index scores, the largest first, and who fills the kernel's slots.

    above: scores above the threshold bin. cap: of the tie buffer.
    """
    ordered = sorted(scores, reverse=True)
    figure, axes = plt.subplots(figsize=(8, 3))
    axes.axvspan(0, above, color=MEANING["real slot"].colour, alpha=0.25, label=f"above the threshold bin: {above}")
    taken = min(cap, topk - above)
    axes.axvspan(above, above + taken, color=MEANING["reserved slot"].colour, alpha=0.4, hatch="//",
                 label=f"from the tie buffer: {taken}")  # fmt: skip
    axes.axvspan(above + taken, topk, color=MEANING["unwritten"].colour, alpha=0.6, hatch="\\\\",
                 label=f"nobody fills: {topk - above - taken}")  # fmt: skip
    axes.plot(range(len(ordered)), ordered, color="black", marker=".", markersize=3, linewidth=1)
    axes.axvline(topk, color="black", linestyle="--")
    axes.text(topk + 1, 0.02, f"k = {topk}", va="center")
    axes.set(xlabel="tokens, the largest score first", ylabel="index score", xlim=(0, len(ordered)), title=title)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(-0.003, 1.5 * max(ordered))
    axes.legend(loc="upper right", frameon=False)
    show(figure, caption)


def fates(servers: Mapping[str, Mapping[int, Sequence[int]]], title: str, caption: str) -> None:
    """What became of the requests at each concurrency, a panel for each server.

    servers: name -> concurrency -> counts in the order of FATES.
    """
    figure, panels = plt.subplots(1, len(servers), figsize=(8, 3.2), sharey=True)
    for axes, (name, counts) in zip(panels, servers.items(), strict=True):
        bottom = np.zeros(len(counts))
        for fate, look in enumerate(FATE_LOOKS):
            heights = np.array([row[fate] for row in counts.values()])
            axes.bar(range(len(counts)), heights, 0.7, bottom=bottom, color=look.colour, hatch=look.hatch,
                     edgecolor="#333333", linewidth=0.4)  # fmt: skip
            bottom += heights
        axes.set_xticks(range(len(counts)), counts)
        axes.set_xlabel("requests at a time")
        axes.set_title(name, fontweight="normal", fontsize=10)
    panels[0].set_ylabel("requests")
    patches = [Patch(facecolor=look.colour, hatch=look.hatch, edgecolor="#333333", label=fate)
               for fate, look in zip(FATES, FATE_LOOKS, strict=True)]  # fmt: skip
    panels[-1].legend(handles=patches, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, handleheight=1.4)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    show(figure, caption)


def table(header: Sequence[str], rows: Sequence[Sequence]) -> Markdown:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return Markdown("\n".join(f"| {' | '.join(map(str, line))} |" for line in lines))


def quality(result: Result | None, problems: Sequence[Problem]) -> list[str]:
    """Tokens per second (median, quartiles), accept length and accuracy as a report gives them."""
    if result is None:
        return ["-", "-", "-"]
    speed, low, high = result.tokens_per_second()
    accuracy = right_answers(result.tokens, problems)
    return [f"{speed:.0f} ({low:.0f} to {high:.0f})", f"{result.accept_length:.2f}", f"{accuracy:.4f}"]


def server_table(outcomes: Mapping[tuple[str, int], Outcome], wrong: Mapping[tuple[str, int], int],
                 problems: Sequence[Problem], concurrency: int) -> Markdown:  # fmt: skip
    """One line a server. outcomes: (what fills its top-k slots, skip) -> what a child with `trial` did."""
    header = ["top-k slots", "skip", "outcome", "requests with NaN", "wrong tokens"]
    header += ["tokens/s", "accept length", "accuracy"]
    rows = []
    for (name, skip), outcome in outcomes.items():
        row = [name, "on" if skip == 0 else "off"]
        if outcome.status == "finished":
            result = outcome.value[concurrency]
            row += ["served", sum(result.had_nan), wrong[name, skip], *quality(result, problems)]
        else:
            where = f" in {outcome.kernel.split('<')[0]}" if outcome.kernel else ""
            row += [f"**fault{where}, {outcome.message.split(',')[0]}**", "-", "-", *quality(None, problems)]
        rows.append(row)
    return table(header, rows)
