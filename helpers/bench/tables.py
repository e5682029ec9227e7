"""The results of bench.py as text: pick lines, and print them as tables."""

from __future__ import annotations

from collections.abc import Sequence

NO_GPU_FIGURES = "Times of the CPU build: they are no GPU figures, and say nothing about one."


def pick(records: Sequence[dict], **wanted: object) -> list[dict]:
    """The records with these values, such as table="topk", shape=[1, 8192]."""
    return [line for line in records if all(line.get(key) == value for key, value in wanted.items())]


def one(records: Sequence[dict], **wanted: object) -> dict | None:
    """The only record with these values, or None. ValueError if there are several."""
    found = pick(records, **wanted)
    if len(found) > 1:
        raise ValueError(f"{len(found)} records have {wanted}")
    return found[0] if found else None


def shapes(records: Sequence[dict], table: str) -> list[list[int]]:
    """The shapes of a table, each once, in their order."""
    return list(map(list, dict.fromkeys(tuple(line["shape"]) for line in pick(records, table=table))))


def name_of(shape: Sequence[int]) -> str:
    """A shape as the tables show it, such as "64 x 8192"."""
    return " x ".join(map(str, shape))


def with_spread(line: dict | None) -> str:
    """Median and quartiles, "6.91 (6.88-6.95)"."""
    if line is None:
        return ""
    return f"{line['us']:.2f} ({line['low']:.2f}-{line['high']:.2f})" if "low" in line else f"{line['us']:g}"


def _grid(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip())


def _methods_table(title, records, others):
    """A line a shape, a column a method; other people's medians on the right."""
    mine, theirs = (list(dict.fromkeys(line["method"] for line in lines)) for lines in (records, others))
    print(f"\n{title}")
    head = ["shape", *mine, *(f"[{method}]" for method in theirs)]
    rows = []
    for shape in shapes(records, records[0]["table"]):
        cells = [with_spread(one(records, shape=shape, method=method)) for method in mine]
        cells += [with_spread(one(others, shape=shape, method=method)) for method in theirs]
        rows.append([name_of(shape), *cells])
    _grid([head, *rows])


def times_by_shape(records: Sequence[dict], method: str, state: str, shapes_wanted: Sequence) -> list[float] | None:
    """Microseconds of a top-k method on Gaussian rows of each shape; None unless all were measured."""
    same = {"table": "topk", "method": method, "state": state, "input": "randn"}
    lines = [one(records, shape=list(shape), **same) for shape in shapes_wanted]
    return [line["us"] for line in lines] if all(lines) else None


def store_speeds(records: Sequence[dict], method: str) -> list[tuple[float, float]]:
    """(megabytes, GB/s) of each shape of store_cache's table: bf16 K and V, each byte read once and written once."""
    lines = pick(records, table="store", method=method)
    moved = [8 * line["shape"][0] * line["shape"][1] / 1e6 for line in lines]
    return [(mb, 1e3 * mb / line["us"]) for mb, line in zip(moved, lines, strict=True)]


def tie_ratio(records: Sequence[dict], shape: Sequence[int], family: str, state: str) -> float | None:
    """How long the exact top-k takes on rows of a family, relative to randn's; None if either is missing."""
    same = {"table": "topk", "shape": list(shape), "method": "exact", "state": state}
    tied, randn = one(records, input=family, **same), one(records, input="randn", **same)
    return tied["us"] / randn["us"] if tied and randn else None


def _ties_table(records, state):
    exact = pick(records, table="topk", method="exact", state=state)
    families = list(dict.fromkeys(line["input"] for line in exact))
    print(f"\nexact top-k by input, {state}, us; in brackets the ratio to randn")
    rows = []
    for shape in shapes(exact, "topk"):
        times = {family: one(exact, shape=shape, input=family) for family in families}
        ratios = {family: tie_ratio(exact, shape, family, state) for family in families}
        rows.append([name_of(shape), *(f"{times[family]['us']:.2f} [{ratios[family]:.2f}]" for family in families)])
    _grid([["shape", *families], *rows])


def _bandwidth_table(records):
    print("\nstore_cache: GB/s, each byte read once and written once, and share of the device copy in the same run")
    rows = [["shape", "skip", "device copy", "share"]]
    for shape in shapes(records, "store"):
        mine, copy = (one(records, table="store", shape=shape, method=method) for method in ("skip", "device copy"))
        speeds = [line["moved"] / line["us"] / 1e3 for line in (mine, copy)]
        rows.append([name_of(shape), *(f"{speed:.0f}" for speed in speeds), f"{speeds[0] / speeds[1]:.1%}"])
    _grid(rows)


def print_tables(results: dict, others: list[dict]) -> None:
    """Print all tables of bench.run's results. others: records of other implementations on the same GPU."""
    machine, records = results["machine"], results["records"]
    where = f"{machine['gpu']}, driver {machine['driver']}" if machine["gpu"] else f"the CPU build. {NO_GPU_FIGURES}"
    print(f"{machine['date']}: torch {machine['torch']}, CuPy {machine['cupy']}, {where}")
    print("us: median (quartiles)" + "; in brackets medians of others, measured earlier on such a GPU" * bool(others))
    for state in ("cold", "warm", "cpu build"):
        randn = pick(records, table="topk", state=state, input="randn")
        if randn:
            title = f"top-k, k 2048, page 64, randn, {state} (torch.topk selects positions only, unsorted)"
            _methods_table(title, randn, pick(others, table="topk", state=state, input="randn"))
            _ties_table(records, state)
    stored = pick(records, table="store")
    title = f"store_cache, bf16, rows x columns of K and of V, {stored[0]['state']}"
    _methods_table(title, stored, pick(others, table="store"))
    _bandwidth_table(records)
    for line in pick(records, table="launch"):
        print(f"\nan empty kernel, {line['method']}, {line['state']}: {with_spread(line)} us", end="")
    for line in pick(records, table="compile"):
        print(f"\ncompile {line['kernel']}, {line['compiler']}: {line['seconds']} s", end="")
    print()
