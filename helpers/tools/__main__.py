"""The tools of lesson 30 at work.

    python -m helpers.tools sanitize               every shipped kernel and variant but the buggy ones under every tool:
                                                   compute-sanitizer's four on a GPU (2 min), else the modes of the CPU
                                                   build (1 min)
    python -m helpers.tools record [--output DIR]  on a GPU: run every experiment, store the transcripts (2 min)
    python -m helpers.tools case NAME              one program of lesson 30, as a tool runs it (seconds)
"""

import argparse
import sys
from pathlib import Path

from helpers.kernel import device

from . import cases
from .experiments import record
from .runs import TRANSCRIPTS
from .sanitize import sanitize


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m helpers.tools", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sanitize")
    commands.add_parser("record").add_argument("--output", type=Path, default=TRANSCRIPTS)
    commands.add_parser("case").add_argument("name", metavar="NAME", help=", ".join(cases.CASES))
    arguments = parser.parse_args(words)
    if arguments.command == "case":
        return cases.run(arguments.name)
    if arguments.command == "sanitize":
        return min(sanitize(), 1)
    if device() != "cuda":
        print("transcripts come from a GPU; helpers.device() is 'cpu' here", file=sys.stderr)
        return 2
    return 0 if record(arguments.output) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
