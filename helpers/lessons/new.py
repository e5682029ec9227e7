"""A new lesson that already has its form: a notebook, a checker and the checker's tests, with a stub in each place."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.machine import ROOT

from .files import GPU_NOTE

CHECKER = '''"""The checkers of lesson {number}."""

from __future__ import annotations

from collections.abc import Callable

from .checks import checker, equal


@checker
def doubled_{number}(answer: Callable[[int], int]) -> str:
    """{number}: answer(n) -> 2 n."""
    for n in (0, 3, -5):
        equal(answer(n), 2 * n, f"n={{n}}")
    return "every number is doubled"
'''
TESTS = '''"""The checkers of lesson {number} accept the solution and refuse answers known to be wrong."""

from answers import accept_and_refuse

from helpers.exercises import lesson_{number} as exercises

RIGHT = {{"doubled_{number}": [lambda n: 2 * n, lambda n: n + n]}}
WRONG = {{
    "doubled_{number}": {{
        "squared": lambda n: n * n,
        "nothing": lambda n: None,
    }},
}}

test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises, RIGHT, WRONG)
'''
MEMORY_MIB = 600  # what a lesson takes that launches small kernels; `check` measures it
HINT = "<details><summary>Hint {n}</summary>\n\nA hint, weak to strong.\n\n</details>"


def new(number: int, title: str, root: Path = ROOT) -> list[Path]:
    """Write notebooks/NN_a_title.ipynb, its checker and the checker's tests. Returns the three paths.

    ValueError for a number outside 0 to 99, an empty title, or a lesson that is there already: nothing is written.
    """
    import nbformat

    if not 0 <= number <= 99:
        raise ValueError(f"number is {number}; it should be between 0 and 99")
    name = re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")
    if not name:
        raise ValueError(f"title is {title!r}; it should have a letter or a digit")
    prefix = f"{number:02}"
    paths = [
        root / "notebooks" / f"{prefix}_{name}.ipynb",
        root / "helpers" / "exercises" / f"lesson_{prefix}.py",
        root / "tests" / "exercises" / f"test_exercises_lesson_{prefix}.py",
    ]
    taken = [*(root / "notebooks").glob(f"{prefix}_*.ipynb"), *(path for path in paths[1:] if path.exists())]
    if taken:
        raise ValueError(f"number is {number}; {taken[0].relative_to(root)} is there already")
    nbformat.write(_notebook(prefix, title), paths[0])
    paths[1].write_text(CHECKER.format(number=prefix))
    paths[2].write_text(TESTS.format(number=prefix))
    return paths


def _notebook(number, title):
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    cells = []

    def text(name, source):
        cells.append(new_markdown_cell(source, id=name))

    def code(name, source, **metadata):
        cells.append(new_code_cell(source, id=name, metadata=metadata))

    opening = (f"# {title}", "One sentence: what the reader will see.",
               "Time: 15 minutes alone, 20 in a workshop.", GPU_NOTE,
               "## You will", "- predict ...\n- see ...\n- write ...")  # fmt: skip
    text("opening", "\n\n".join(opening))
    code("setup", f"from helpers import device\nfrom helpers.exercises import checks, lesson_{number} as exercises\n"
         "from helpers.lessons import banner\n\nbanner()")  # fmt: skip
    for i, part in enumerate(("first", "second", "third")):
        text(f"{part}-heading", f"## The {part} section (4 min)\n\nWhat the reader should know, and a question.")
        text(f"{part}-ask", "Before you run on: what is it? Set the variable.")
        code(f"{part}-prediction", f"my_{part} = None", tags=["prediction"])
        code(f"{part}-reveal", f"{part} = {i + 1} + {i + 1}\nchecks.reveal(my_{part}, {part}, 'the sum')")
        text(f"{part}-why", "Why it is so.")
        code(f"{part}-claim", f"assert {part} == {2 * i + 2} and device() in ('cpu', 'cuda')")
    text("task", "## Exercise (3 min)\n\nInput, output, the rule, and how many lines are expected.")
    code("exercise", f"def answer(n):\n    ...\n\n\nexercises.doubled_{number}(answer)",
         tags=["exercise"], exercise=f"doubled_{number}")  # fmt: skip
    text("hints", HINT.format(n=1) + "\n\n" + HINT.format(n=2))
    code("solution", f"def answer(n):\n    return 2 * n\n\n\nexercises.doubled_{number}(answer, strict=True)",
         tags=["solution", "hide-cell"], exercise=f"doubled_{number}", jupyter={"source_hidden": True})  # fmt: skip
    text("recap", "## Recap\n\n- You predicted ...\n- You saw ...\n- You wrote ...\n\n*The one line to keep.*")
    text("upstream", "## Upstream\n\n- https://github.com/ : where the bug or the idea comes from.")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "memory_mib": MEMORY_MIB})
