"""Times of the exact top-k and of store_cache on this machine: printed as tables, and kept as JSON for lesson 32.

On a GPU every time is that of a CUDA graph's replay, in rounds that time each method once:
  warm   a graph of many launches, per launch
  cold   a graph of many pairs: zeroing 256 MiB, which flushes the L2 cache, and a launch; less a graph of the zeroings
On a CPU: seconds to compile, and one call of the CPU build. These are no GPU figures.

Each result is checked before it is timed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from functools import partial
from unittest.mock import patch

import torch

from helpers.arrays.inputs import SCORE_FAMILIES, generator, page_table
from helpers.arrays.memory import poisoned
from helpers.cpu import compiler
from helpers.kernel import compile_cuda, compile_to_cubin, launch
from helpers.machine import versions
from helpers.operations.store_cache import store_cache
from helpers.operations.topk_transform import topk_transform
from helpers.proof.reference import exact_positions

from .kept import machine
from .timing import measure

TOPK, PAGE_SIZE = 2048, 64
TOPK_SHAPES = {  # rows, scores a row
    "cuda": ((1, 8192), (1, 131072), (1, 524288), (64, 8192), (64, 131072), (256, 65536)),
    "cpu": ((1, 8192), (1, 131072), (16, 8192)),
}
STORE_SHAPES = {  # rows, columns of bf16
    "cuda": ((1, 512), (512, 512), (2048, 512), (8192, 512), (32768, 512), (2048, 1024), (8192, 1024), (32768, 1024)),
    "cpu": ((1, 512), (512, 512), (512, 1024)),
}
TIED = ("90 % zeros", "one fp16 bin", "8 values")
ROUNDS = {"cuda": 20, "cpu": 5}
EMPTY_KERNEL = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PDL() asm volatile("griddepcontrol.wait;\\ngriddepcontrol.launch_dependents;" ::: "memory")
#else
#define PDL()
#endif
extern "C" __global__ void empty() { PDL(); }
"""


def scores_of(family: str, batch: int, length: int, where: str) -> torch.Tensor:
    """fp32 [batch, length] of an input family, or as an indexer with ReLU makes them: 90 % zeros, the rest above."""
    if family == "90 % zeros":
        values = torch.randn(batch, length, generator=generator(0)).abs()
        values[torch.rand(batch, length, generator=generator(1)) < 0.9] = 0.0
        return values.to(where)
    return SCORE_FAMILIES[family](batch * length, generator(0)).view(batch, length).to(where)


def _lines(table, shape, state, samples, **more):
    """Records of a table. samples: (method, input) or method -> seconds, one a round. Values are microseconds."""
    lines = []
    for key, values in samples.items():
        method, *family = key if isinstance(key, tuple) else (key,)
        line = {"table": table, "shape": list(shape), "method": method, "state": state}
        line |= {"input": family[0]} if family else {}
        low, middle, high = (round(1e6 * value, 3) for value in statistics.quantiles(values, n=4))
        lines.append(line | {"us": middle, "low": low, "high": high} | more)
    return lines


def _warm(calls, where, launches=64):
    """Samples of each call, with whatever the one before left in the caches."""
    timings = measure(calls, ROUNDS[where], launches, where)
    return {name: timing.samples for name, timing in timings.items()}


def _cold(calls):
    """Samples of each call behind a flush of the L2 cache."""
    scratch = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")

    def flushed(call):
        scratch.zero_()
        call()

    pairs = {name: partial(flushed, call) for name, call in calls.items()}
    samples = _warm({"flush": scratch.zero_, **pairs}, "cuda", 20)
    flush = samples.pop("flush")
    return {name: [both - alone for both, alone in zip(taken, flush, strict=True)] for name, taken in samples.items()}


def topk_records(where: str) -> list[dict]:
    """The exact top-k beside the one with the sentinel and torch's, and on rows with many ties."""
    lines = []
    for batch, length in TOPK_SHAPES[where]:
        table = page_table(batch, length // PAGE_SIZE).to(where)
        lens = torch.full((batch,), length, dtype=torch.int32, device=where)
        out, raw = (poisoned((batch, TOPK), torch.int32, where) for _ in range(2))
        calls = {}
        for family in ("randn", *TIED):
            scores = scores_of(family, batch, length, where)
            topk_transform(scores, lens, table, TOPK, PAGE_SIZE, out=out, raw_out=raw)
            if not torch.equal(raw.long(), exact_positions(scores, lens, TOPK)):
                raise AssertionError(f"exact_topk is wrong on {family}, {batch} x {length}")
            calls["exact", family] = partial(topk_transform, scores, lens, table, TOPK, PAGE_SIZE, out=out)
        exact, scores = calls["exact", "randn"], calls["exact", "randn"].args[0]
        calls["sentinel", "randn"] = partial(exact, overflow="sentinel")
        calls["torch.topk", "randn"] = partial(torch.topk, scores, TOPK, dim=1, sorted=False)
        if where == "cpu":
            lines += _lines("topk", (batch, length), "cpu build", _warm(calls, where))
        else:
            lines += _lines("topk", (batch, length), "cold", _cold(calls))
            calls["exact, PDL", "randn"] = partial(exact, pdl=True)
            lines += _lines("topk", (batch, length), "warm", _warm(calls, where))
    return lines


def store_records(where: str) -> list[dict]:
    """store_cache with the skip and without, torch's way, and a device copy of as many bytes.

    All slots are real and in order, and each launch writes the same ones, so what fits into the L2 cache stays there,
    as in upstream's benchmark.
    """
    lines = []
    for rows, columns in STORE_SHAPES[where]:
        kv = torch.randn(2, rows, columns, device=where).bfloat16()
        caches = torch.zeros(2, rows + 1, columns, dtype=torch.bfloat16, device=where)
        slots = torch.arange(1, rows + 1, device=where)
        store = partial(store_cache, *kv, *caches, slots.int())
        store()
        if not torch.equal(caches[:, slots], kv):
            raise AssertionError(f"store_cache is wrong on {rows} x {columns}")

        def put(source=kv, caches=caches, slots=slots):
            caches[0][slots], caches[1][slots] = source[0], source[1]

        calls = {"skip": partial(store, pdl=True), "no skip": partial(store, pdl=True, reserved_skip_index=-1)}
        calls |= {"skip, no PDL": store, "torch index_put, twice": put}
        calls["device copy"] = partial(torch.empty_like(kv).copy_, kv)
        samples = _warm(calls, where, 256 if rows <= 2048 else 64)
        state = "warm" if where == "cuda" else "cpu build"
        lines += _lines("store", (rows, columns), state, samples, moved=2 * kv.nbytes)
    return lines


def launch_records() -> list[dict]:
    """What a kernel costs that does nothing."""
    empty = compile_cuda(EMPTY_KERNEL, ["empty"]).get_function("empty")
    calls = {name: partial(launch, empty, (1,), (32,), (), pdl=pdl) for name, pdl in (("PDL", True), ("no PDL", False))}
    cold = _cold({"no PDL": calls["no PDL"]})
    return _lines("launch", (), "warm", _warm(calls, "cuda", 256)) + _lines("launch", (), "cold", cold)


def compile_records() -> list[dict]:
    """Seconds that a first compilation takes: by NVRTC for an H200, and for the CPU build."""
    lines = []
    kernels = {"exact_topk.cu": "exact_topk<1024, 8, 1, false>", "store_cache.cu": "store_cache<int, 1, 16, false>"}
    for file, name in kernels.items():
        seconds = {}
        if not versions()["cupy"].startswith("missing"):
            seconds["NVRTC, sm_90"] = compile_to_cubin(file, [name], "sm_90").seconds
        if compiler():
            with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, KERNEL_CACHE=folder):
                started = time.perf_counter()
                compile_cuda(file, [name], device="cpu", defines={"FRESH": time.time_ns()})
                seconds["CPU build"] = time.perf_counter() - started
        lines += [{"table": "compile", "kernel": file, "compiler": by, "seconds": round(taken, 2)}
                  for by, taken in seconds.items()]  # fmt: skip
    return lines




def run(where: str) -> dict:
    """Measure everything: {"machine": ..., "records": [...]}."""
    records = topk_records(where) + store_records(where)
    records += launch_records() if where == "cuda" else []
    return {"machine": machine(where), "records": records + compile_records()}
