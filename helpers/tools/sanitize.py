"""Every shipped kernel and variant but the buggy ones under every tool of this machine."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from helpers.kernel import device
from helpers.machine import find_tool

from .canary_table import GPU_TOOLS
from .experiments import run_sanitizer


def sanitize() -> int:
    """Every shipped kernel under every tool of this machine. Returns how many tools found something or failed."""
    program = [sys.executable, "-m", "helpers.proof.shipped"]
    if device() == "cpu":
        return subprocess.run([*program, "--modes"], check=False).returncode
    if not find_tool("compute-sanitizer"):
        print("compute-sanitizer is not on this machine; it comes with the CUDA toolkit", file=sys.stderr)
        return len(GPU_TOOLS)
    with ThreadPoolExecutor(len(GPU_TOOLS)) as pool:
        shown = "python -m helpers.proof.shipped"
        runs = pool.map(lambda tool: run_sanitizer(tool, tool, (), program, shown, 300), GPU_TOOLS)
        failed = 0
        for result in runs:
            complete = result.status == "finished" and "all shipped kernels ran" in result.text
            clean = complete and result.count == 0
            failed += not clean
            print(f"{result.name:10} {result.count} errors in {result.seconds} s, {'clean' if clean else 'NOT CLEAN'}")
            if not clean:
                result.show(60)
    return failed
