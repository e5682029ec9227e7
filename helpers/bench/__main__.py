"""Times of the kernels on this machine: printed as tables, and kept as JSON for lesson 32.

    python -m helpers.bench [--json PATH]     some minutes on a GPU, half a minute on a CPU
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from helpers.kernel import device

from .kept import others_on, results_path, save
from .measure import run
from .tables import print_tables


def main(words: list[str]) -> int:
    where = device()
    parser = argparse.ArgumentParser(
        prog="python -m helpers.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, default=results_path(where), help="default here: %(default)s")
    path = parser.parse_args(words).json
    os.environ["KERNEL_CHECK"] = "0"  # a look at the arguments' contents would be part of the times
    started = time.perf_counter()
    results = run(where)
    print_tables(results, others_on(results["machine"]["gpu"]))
    save(results, path)
    print(f"\n{time.perf_counter() - started:.0f} s in all; kept in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
