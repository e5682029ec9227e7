"""The lessons as files: run them, keep copies, bring the map up to date, begin a new one, check one.

    python -m helpers.lessons execute [--output DIR] [--all] [NAME ...]
                                        on a GPU: run the lessons whose copies are stale (or all, or those named)
                                        and keep copies that say where; 10 to 60 s a lesson
    python -m helpers.lessons strip     remove outputs from the lessons (they are kept without); seconds
    python -m helpers.lessons map       bring the map of the lessons in README.md up to date; seconds
    python -m helpers.lessons new 40 "A title"
                                        begin a lesson: a notebook, a checker and its tests, with a stub in each place
    python -m helpers.lessons check 40  whether a lesson has its form, its checkers their tests, and all of it runs:
                                        as it is, unsolved and solved; seconds, or as long as the lesson takes
"""

import argparse
import subprocess
import sys
from pathlib import Path

from helpers.machine import ROOT

from . import copies, files, form
from .new import new


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m helpers.lessons", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    execute = commands.add_parser("execute", help="run lessons on a GPU and keep copies")
    execute.add_argument("--output", type=Path, default=copies.EXECUTED, help="default: %(default)s")
    execute.add_argument("--all", action="store_true", help="fresh copies too")
    execute.add_argument("names", nargs="*", metavar="NAME")
    commands.add_parser("strip", help="remove outputs from the lessons")
    commands.add_parser("map", help="bring README's map of the lessons up to date")
    new = commands.add_parser("new", help="begin a lesson")
    new.add_argument("number", type=int)
    new.add_argument("title")
    commands.add_parser("check", help="check one lesson").add_argument("number", type=int)
    return parser


def _new(number, title):
    for path in new(number, title):
        print(f"made {path.relative_to(ROOT)}")
    _update_map()
    print(f"README.md lists it. Now write it, and see: python -m helpers.lessons check {number}")
    return 0


def _check(number):
    """Exit status 0 if the lesson is as it should be."""
    path = files.lesson(number)
    faults = form.faults(files.read(path))
    for fault in faults:
        print(f"form: {fault}")
    tests = ["tests/lessons/test_lessons.py", "tests/exercises", str(path.relative_to(ROOT))]
    checkers = {cell.metadata.get("exercise") for cell in files.read(path).cells} - {None}
    chosen = " or ".join((path.stem, *sorted(checkers)))
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--nbmake", "-k", chosen, *tests]
    return subprocess.run(command, cwd=ROOT).returncode or bool(faults)


def _update_map():
    readme = ROOT / "README.md"
    readme.write_text(files.with_map(readme.read_text()))
    return 0


def main(words: list[str]) -> int:
    arguments = _parser().parse_args(words)
    try:
        match arguments.command:
            case "strip":
                return files.strip()
            case "map":
                return _update_map()
            case "new":
                return _new(arguments.number, arguments.title)
            case "check":
                return _check(arguments.number)
            case "execute":
                return min(copies.execute(arguments.output, arguments.names, arguments.all), 1)
    except (RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
