"""Times as medians with their spread, and ratios taken within one run."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping

import torch

from helpers.kernel import captured


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one call, in seconds: the median, and the quartiles as its spread."""

    median: float
    low: float
    high: float
    samples: tuple

    def __str__(self):
        return f"{1e6 * self.median:.2f} us ({1e6 * self.low:.2f} to {1e6 * self.high:.2f})"


def measure(calls: Mapping[str, Callable[[], object]], rounds: int = 30, calls_a_round: int = 20,
            device: str = "cpu") -> dict[str, Timing]:  # fmt: skip
    """Time each of `calls` (name -> function without arguments) and return name -> Timing.

    Every round times every call once, so that a machine that slows down slows all of them. On a GPU, each call is
    captured `calls_a_round` times in a CUDA graph, and events time the graph's replay: launch cost from Python stays
    out. On a CPU, perf_counter times one call.
    """
    runs = {name: captured(call, calls_a_round) if device == "cuda" else call for name, call in calls.items()}
    clock = _gpu_seconds if device == "cuda" else _cpu_seconds
    for run in runs.values():
        clock(run)
    samples = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            samples[name].append(clock(run) / (calls_a_round if device == "cuda" else 1))
    return {name: _timing(values) for name, values in samples.items()}


def ratio(timings: Mapping[str, Timing], name: str, baseline: str) -> tuple[float, float, float]:
    """(median, low quartile, high quartile) of name's time over baseline's, round by round."""
    pairs = zip(timings[name].samples, timings[baseline].samples, strict=True)
    ratios = _timing([a / b for a, b in pairs])
    return ratios.median, ratios.low, ratios.high


def _timing(values):
    low, median, high = statistics.quantiles(values, n=4)
    return Timing(median, low, high, tuple(values))


def _gpu_seconds(run):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def _cpu_seconds(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
