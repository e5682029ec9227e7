"""Results as they are kept: by which machine, of which kernels, in which file."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from pathlib import Path

import torch

from helpers.kernel import KERNELS
from helpers.machine import driver_version, versions

RESULTS = Path(__file__).resolve().parent / "results"


def kernels_hash() -> str:
    """SHA-256 of the two kernels: results of other ones are old."""
    return hashlib.sha256(b"".join((KERNELS / f).read_bytes() for f in ("exact_topk.cu", "store_cache.cu"))).hexdigest()


def machine(where: str) -> dict:
    """What results are of: the GPU (None for the CPU) and its driver, versions, today's date, the kernels' hash."""
    gpu = torch.cuda.get_device_name() if where == "cuda" else None
    return versions() | {
        "gpu": gpu,
        "driver": driver_version() if gpu else None,
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count if gpu else None,
        "date": datetime.date.today().isoformat(),
        "kernels": kernels_hash(),
    }


def results_path(where: str) -> Path:
    """Where this machine's results are kept: h200.json for an "NVIDIA H200"."""
    name = torch.cuda.get_device_name() if where == "cuda" else "cpu"
    return RESULTS / (re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")) + ".json")


def load(name: str) -> dict | None:
    """The results kept as helpers/bench/results/<name>.json: {"machine": ..., "records": [...]}, or None."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def others_on(gpu: str | None) -> list[dict]:
    """Records of other implementations, measured on a GPU of that name."""
    others = load("others_h200")
    return others["records"] if gpu == others["machine"]["gpu"] else []


def save(results: dict, path: Path) -> None:
    """Write results as `load` reads them, a record a line."""
    lines = ",\n".join("    " + json.dumps(line) for line in results["records"])
    path.write_text(f'{{\n  "machine": {json.dumps(results["machine"])},\n  "records": [\n{lines}\n  ]\n}}\n')
