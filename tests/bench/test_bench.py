"""`make bench`: what it measures, what it prints, and the results kept from an H200."""

import json
import warnings

import pytest

from helpers.bench import kept, measure as bench
from helpers.bench.__main__ import main
from helpers.bench.tables import name_of, one, pick, print_tables, shapes, tie_ratio

SMALL = {"TOPK_SHAPES": {"cpu": ((1, 4096), (2, 2560))}, "STORE_SHAPES": {"cpu": ((1, 64), (20, 128))}}
# What the exact top-k should take at most with an empty L2 cache, and what its peers take: microseconds on an H200.
GOALS = {(1, 8192): 7, (64, 8192): 8, (1, 131072): 15, (64, 131072): 45, (256, 65536): 50}
EXACT_PEERS = ("DeepSelect", "CUB batched top-k, lowest index first", "FlashInfer, deterministic", "torch.topk")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setenv("KERNEL_DEVICE", "cpu")
    for name, value in SMALL.items():
        monkeypatch.setattr(bench, name, value)


def test_on_a_cpu_it_says_that_these_are_no_gpu_figures(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KERNEL_CHECK", "1")  # main sets it to 0; this puts it back afterwards
    assert main(["--json", str(tmp_path / "here.json")]) == 0
    said = capsys.readouterr().out
    assert "no GPU figures" in said and "us: median (quartiles)" in said
    for text in ("1 x 4096", "2 x 2560", "20 x 128", "exact", "torch.topk", "90 % zeros", "device copy", "CPU build:"):
        assert text in said
    results = json.loads((tmp_path / "here.json").read_text())
    assert results["machine"]["gpu"] is None and results["machine"]["kernels"] == kept.kernels_hash()
    assert {line["table"] for line in results["records"]} == {"topk", "store", "compile"}
    for line in pick(results["records"], state="cpu build"):
        assert 0 < line["low"] <= line["us"] <= line["high"]


def test_it_refuses_to_time_a_wrong_result(small, monkeypatch):
    exact, store = bench.topk_transform, bench.store_cache
    monkeypatch.setattr(bench, "topk_transform", lambda *a, **kw: exact(*a, **kw | {"overflow": "position"}))
    with pytest.raises(AssertionError, match="exact_topk is wrong"):
        bench.topk_records("cpu")
    monkeypatch.setattr(bench, "store_cache", lambda *a, **kw: store(*a, **kw, reserved_skip_index=int(a[-1][0])))
    with pytest.raises(AssertionError, match="store_cache is wrong"):
        bench.store_records("cpu")


def test_tables_of_a_gpu_show_other_implementations_beside_ours(capsys):
    """Made-up results of every method, so that this needs no GPU."""
    records = []
    for shape in map(list, bench.TOPK_SHAPES["cuda"]):
        for method, family in (("sentinel", "randn"), *(("exact", family) for family in ("randn", *bench.TIED))):
            line = {"table": "topk", "shape": shape, "method": method, "input": family, **TIMES}
            records += [line | {"state": "cold"}, line | {"state": "warm"}]
    for shape in map(list, bench.STORE_SHAPES["cuda"]):
        line = {"table": "store", "shape": shape, "state": "warm", "moved": 10**6, **TIMES}
        records += [line | {"method": "skip"}, line | {"method": "device copy"}]
    records += [{"table": "launch", "shape": [], "method": "PDL", "state": "warm", **TIMES}]
    machine = {"gpu": "NVIDIA H200", "driver": "1", "torch": "2", "cupy": "3", "date": "2026-11-29"}
    print_tables({"machine": machine, "records": records}, kept.others_on("NVIDIA H200"))
    said = capsys.readouterr().out
    assert "[SGLang 0.5.23]" in said and "64 x 131072" in said and "1.50 (1.25-2.00)" in said
    assert "no GPU figures" not in said and "[1.00]" in said and "100.0%" in said
    assert kept.others_on("NVIDIA A100") == [] == kept.others_on(None)


TIMES = {"us": 1.5, "low": 1.25, "high": 2.0}


def test_other_implementations_cover_our_shapes():
    others = kept.load("others_h200")["records"]
    assert shapes(others, "topk") == list(map(list, bench.TOPK_SHAPES["cuda"]))
    assert shapes(others, "store") == list(map(list, bench.STORE_SHAPES["cuda"]))
    for method in ("SGLang 0.5.23", *EXACT_PEERS):
        assert len(pick(others, table="topk", method=method, input="randn")) == len(bench.TOPK_SHAPES["cuda"])


def test_one_of_many():
    lines = [{"table": "topk", "shape": [1, 2], "us": 3.0}, {"table": "topk", "shape": [1, 3], "us": 4.0}]
    assert one(lines, shape=[1, 3])["us"] == 4.0 and one(lines, shape=[9]) is None
    assert name_of([64, 8192]) == "64 x 8192" and tie_ratio(lines, (1, 2), "8 values", "cold") is None
    with pytest.raises(ValueError, match="2 records"):
        one(lines, table="topk")


def test_the_results_kept_from_an_h200():
    """Missing, older than the kernels, or short of a goal: a warning, so that work without a GPU can go on."""
    results = kept.load("h200")
    if results is None:
        warnings.warn("helpers/bench/results/h200.json is missing: run `make bench` on an H200", stacklevel=1)
        return
    records, others = results["records"], kept.load("others_h200")["records"]
    assert "H200" in results["machine"]["gpu"] and results["machine"]["driver"] and results["machine"]["date"]
    for shape in map(list, bench.TOPK_SHAPES["cuda"]):
        for state in ("cold", "warm"):
            for method in ("exact", "sentinel", "torch.topk"):
                assert one(records, table="topk", shape=shape, method=method, state=state, input="randn")["us"] > 0
            for family in bench.TIED:
                assert tie_ratio(records, shape, family, state) > 0
    for shape in map(list, bench.STORE_SHAPES["cuda"]):
        for method in ("skip", "no skip", "skip, no PDL", "torch index_put, twice", "device copy"):
            assert one(records, table="store", shape=shape, method=method, state="warm")["us"] > 0
    missed = misses(records, others)
    if results["machine"]["kernels"] != kept.kernels_hash():
        missed.insert(0, "the kernels changed since: run `make bench` on an H200 again")
    for what in missed:
        warnings.warn(f"helpers/bench/results/h200.json: {what}", stacklevel=1)


def misses(records, others):
    """The goals that results miss, one line each."""
    found = []
    for shape in bench.TOPK_SHAPES["cuda"]:
        same = {"table": "topk", "shape": list(shape), "state": "cold", "input": "randn"}
        mine = one(records, method="exact", **same)["us"]
        theirs = [one(others, method=peer, **same)["us"] for peer in EXACT_PEERS]
        if mine > min(GOALS.get(shape, mine), *theirs):
            found.append(f"top-k {name_of(shape)} takes {mine} us cold")
        for family in bench.TIED:
            ratio = tie_ratio(records, shape, family, "cold")
            if ratio > 1.3:
                found.append(f"top-k {name_of(shape)} on {family} takes {ratio:.2f} times randn's time")
    for shape in map(list, bench.STORE_SHAPES["cuda"]):
        mine, copy = (one(records, table="store", shape=shape, method=m)["us"] for m in ("skip", "device copy"))
        upstream = one(others, table="store", shape=shape, method="SGLang")["us"]
        if mine > upstream:
            found.append(f"store_cache {name_of(shape)} takes {mine} us, upstream's {upstream}")
        if shape[0] == 32768 and copy / mine < 0.92:
            found.append(f"store_cache {name_of(shape)} reaches {copy / mine:.1%} of the copy's bandwidth")
    return found


def test_misses_are_found():
    others = kept.load("others_h200")["records"]
    records = [{**line, "method": "exact", "us": 0.5} for line in pick(others, method="SGLang 0.5.23", input="randn")]
    records += [{**line, "input": family, "us": 0.6} for family in bench.TIED for line in records]
    for line in pick(others, table="store", method="SGLang"):
        records += [{**line, "method": method, "us": 0.5} for method in ("skip", "device copy")]
    assert misses(records, others) == []
    one(records, table="topk", shape=[1, 8192], input="randn")["us"] = 7.1
    one(records, table="topk", shape=[1, 524288], input="8 values")["us"] = 0.7
    one(records, table="store", shape=[32768, 512], method="device copy")["us"] = 0.4
    one(records, table="store", shape=[1, 512], method="skip")["us"] = 1.0
    assert [line.split(" takes")[0].split(" reaches")[0] for line in misses(records, others)] == [
        "top-k 1 x 8192", "top-k 1 x 524288 on 8 values", "store_cache 1 x 512", "store_cache 32768 x 512",
    ]  # fmt: skip
