"""Figures of lesson 32, from the records of bench.py. Each takes its caption, which is also the alternative text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter

from . import show

# One look for each method, in every figure; ours is filled and in the colour of "after".
OURS, SGLANG = ("#0072B2", "o", ""), ("#000000", "D", "")
OTHER, LIBRARY = ("#666666", "s", "//"), ("#E69F00", "^", "..")
LOOKS = {
    "exact": OURS,
    "exact, PDL": ("#0072B2", "P", "++"),
    "sentinel": OTHER,
    "torch.topk": LIBRARY,
    "SGLang 0.5.23": SGLANG,
    "DeepSelect": ("#56B4E9", "v", "xx"),
    "CUB batched top-k, lowest index first": ("#009E73", "<", "\\\\"),
    "FlashInfer, deterministic": ("#CC79A7", ">", "--"),
    "skip": OURS,
    "device copy": OTHER,
    "SGLang": SGLANG,
    "torch index_put, twice": LIBRARY,
}
BELOW = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 3, "frameon": False}
PLATE = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}


def _plain_numbers(axis):
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def roofline(points: Mapping[str, Sequence[tuple[float, float]]], gb_per_s: float, launch_us: float,
             title: str, caption: str) -> None:  # fmt: skip
    """Times over the bytes that a top-k has to move, above the floor of bandwidth and launch.

    points: method -> (megabytes, microseconds) of each shape.
    """
    figure, axes = plt.subplots(figsize=(8, 4))
    every = [x for line in points.values() for x, _ in line]
    grid = np.geomspace(min(every) / 2, 2 * max(every), 200)
    floor = np.maximum(launch_us, 1e3 * grid / gb_per_s)
    axes.fill_between(grid, floor, floor.min() / 2, color="#E5E5E5", linewidth=0)
    axes.plot(grid, floor, color="#333333")
    axes.text(grid[60], 1.12 * launch_us, f"a launch: {launch_us:.1f} us", va="bottom")
    corner = grid[-1]
    axes.annotate(f"{gb_per_s / 1e3:.1f} TB/s", (corner, 1e3 * corner / gb_per_s), (-5, -62),
                  textcoords="offset points", ha="right", va="top")  # fmt: skip
    for method, line in points.items():
        colour, marker, _ = LOOKS[method]
        style = {"color": colour, "label": method, "markersize": 8, "markeredgecolor": "white"}
        axes.plot(*zip(*sorted(line), strict=True), marker, **style)
    axes.set(xscale="log", yscale="log", xlim=(grid[0], grid[-1]), title=title)
    axes.set(xlabel="megabytes to read and write", ylabel="microseconds, L2 cache empty")
    axes.set_ylim(bottom=floor.min() / 2)
    _plain_numbers(axes.xaxis)
    _plain_numbers(axes.yaxis)
    axes.legend(**BELOW)
    show(figure, caption)


def by_shape(times: Mapping[str, Sequence[float]], shapes: Sequence[str], title: str, caption: str) -> None:
    """Groups of bars on a log axis, one group a shape. times: method -> microseconds of each shape."""
    figure, axes = plt.subplots(figsize=(8, 4))
    width = 0.84 / len(times)
    for i, (method, values) in enumerate(times.items()):
        colour, _, hatch = LOOKS[method]
        places = [x - 0.42 + (i + 0.5) * width for x in range(len(shapes))]
        bars = axes.bar(places, values, 0.94 * width, color=colour, hatch=hatch, edgecolor="white", label=method)
        if i == 0:
            axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=2, fontsize=8, bbox=PLATE, zorder=3)
    axes.set_xticks(range(len(shapes)), shapes)
    axes.set(yscale="log", ylabel="microseconds, L2 cache empty", title=title, xlabel="rows x scores")
    _plain_numbers(axes.yaxis)
    axes.tick_params(axis="x", length=0)
    axes.legend(**BELOW)
    show(figure, caption)


def tie_ratios(ratios: Mapping[str, Sequence[float]], shapes: Sequence[str], title: str, caption: str) -> None:
    """Time relative to Gaussian rows. ratios: family -> one a shape."""
    figure, axes = plt.subplots(figsize=(8, 3.2))
    for (family, values), (colour, marker) in zip(
        ratios.items(), (("#0072B2", "o"), ("#000000", "s"), ("#E69F00", "^")), strict=False
    ):
        axes.plot(range(len(shapes)), values, marker, color=colour, label=family, markersize=9)
    axes.axhline(1, color="#333333", linewidth=1)
    axes.text(len(shapes) - 0.5, 1, " Gaussian", va="center")
    axes.set_xticks(range(len(shapes)), shapes)
    axes.set(ylabel="time / time on Gaussian rows", xlabel="rows x scores", title=title)
    axes.set_ylim(0, 1.15 * max(1, *(max(values) for values in ratios.values())))
    axes.set_xlim(-0.5, len(shapes) - 0.5)
    axes.legend(**(BELOW | {"bbox_to_anchor": (0.5, -0.25)}))
    show(figure, caption)


def bandwidth(speeds: Mapping[str, Sequence[tuple[float, float]]], title: str, caption: str) -> None:
    """GB/s over megabytes moved. speeds: method -> (megabytes, GB/s) of each shape."""
    figure, axes = plt.subplots(figsize=(8, 3.6))
    for method, line in speeds.items():
        colour, marker, _ = LOOKS[method]
        axes.plot(*zip(*sorted(line), strict=True), marker + "-", color=colour, label=method, markersize=7)
    axes.set(xscale="log", ylim=(0, None), title=title)
    axes.set(xlabel="megabytes read and written", ylabel="GB/s")
    _plain_numbers(axes.xaxis)
    axes.legend(**BELOW)
    show(figure, caption)


def bars(values: Mapping[str, float], title: str, caption: str) -> None:
    """Plain bars with their numbers, microseconds."""
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.45 * len(values)))
    drawn = axes.barh(range(len(values)), list(values.values()), 0.6, color="#0072B2")
    axes.bar_label(drawn, [f"{value:.3g}" for value in values.values()], padding=4)
    axes.set_yticks(range(len(values)), list(values))
    axes.set(ylim=(len(values) - 0.4, -0.6), xlim=(0, 1.15 * max(values.values())), xlabel="microseconds", title=title)
    axes.tick_params(axis="y", length=0)
    show(figure, caption)
