"""Every shipped kernel in every variant but those that show a bug, at the sizes of the lessons.

    python -m helpers.proof.shipped           once, on helpers.device(): the program to put under compute-sanitizer
    python -m helpers.proof.shipped --modes   on the CPU build, in every mode and thread order; exit status 1 if one
                                              faults
"""

import itertools
import os
import sys
import time

import torch

from helpers import cpu
from helpers.kernel import device
from helpers.operations import every_operation

# By the name of the kernel: what its operation declares.
RUNS = {name: operation.try_variants for name, operation in every_operation().items()}


def run_all(where: str) -> None:
    """Run what every operation declares, on "cpu" or "cuda"; prints a line each. Raises what a run raises."""
    for name, run in RUNS.items():
        run(where)
        if where == "cuda":
            torch.cuda.synchronize()
        print(f"{name}: ran", flush=True)
    print("all shipped kernels ran", flush=True)


def run_modes() -> int:
    """Run all on the CPU build in every mode; prints a line each. Returns how many (kernel, mode, order) faulted.

    A race detector sees a race whatever the order, and is slow: tsan runs in one order only.
    """
    faults = 0
    missing = cpu.missing_modes()
    for mode in cpu.MODES:
        if mode in missing:
            print(f"{mode:8} skipped: it needs {missing[mode]}")
            continue
        for order, (name, run) in itertools.product(("random",) if mode == "tsan" else cpu.ORDERS, RUNS.items()):
            started, said = time.perf_counter(), "clean"
            try:
                with cpu.mode(mode, order=order, seed=1):
                    run("cpu")
            except cpu.KernelFault as fault:
                faults, said = faults + 1, f"FAULT: {fault}"
            print(f"{mode:8} {order:8} {name:26} {time.perf_counter() - started:6.1f} s  {said}", flush=True)
    return faults


def main(words: list[str]) -> int:
    torch.manual_seed(0)
    os.environ["KERNEL_CHECK"] = "0"  # the tools should see our kernels, not the reductions that look at their inputs
    if words == ["--modes"]:
        return min(run_modes(), 1)
    run_all(device())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
