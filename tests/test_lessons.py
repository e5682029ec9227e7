"""Every lesson: its form, its exercises unsolved and solved in one kernel, and its executed copy."""

import contextlib
import re
import statistics
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from helpers import lesson_memory, lessons
from helpers.lessons import EXECUTED, read, tags

LESSONS = {path.stem: path for path in lessons.lessons()}
FORBIDDEN = r"^\s*[!%]|pip install|\burlopen\b|\brequests\.|\bwget\b|\bcurl\b"
PLAIN_SECTIONS = ("You will", "Recap", "Upstream", "Glossary")


@pytest.fixture(params=LESSONS)
def lesson(request):
    return read(LESSONS[request.param])


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def lines_of(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


def section(notebook, name):
    """The text of one `## name` section, its code cells left out."""
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section '## {name}'"
    return found[1]


def items(text):
    return re.findall(r"^(?:[-*]|\d+\.) ", text, re.MULTILINE)


def test_opening(lesson):
    opening = lesson.cells[0].source
    assert re.match(r"# .+\n\n\S.+[.?!]$", opening, re.MULTILINE), "open with a title and one sentence"
    assert lessons.minutes(lesson), "the opening says `Time: 10 minutes alone, 15 in a workshop.`"
    assert lessons.GPU_NOTE in section(lesson, "You will") + opening
    assert 3 <= len(items(section(lesson, "You will"))) <= 4
    first = code_of(lesson)[0].source
    assert len(first.splitlines()) <= 10 and first.splitlines()[-1] == "banner()"


def test_ending(lesson):
    assert len(items(section(lesson, "Recap"))) == len(items(section(lesson, "You will")))
    assert "https://github.com/" in section(lesson, "Upstream")


def test_sections_say_their_minutes(lesson):
    text = "\n".join(cell.source for cell in lesson.cells if cell.cell_type == "markdown")
    names = [name for name in re.findall(r"^## (.+)$", text, re.MULTILINE) if name not in PLAIN_SECTIONS]
    assert names and [name for name in names if not re.search(r"\(\d+ min\)$", name)] == []


def test_size(lesson):
    assert 20 <= len(lesson.cells) <= 40
    lengths = [len(cell.source.splitlines()) for cell in code_of(lesson)]
    assert max(lengths) <= 25
    assert statistics.median(lengths) <= 6
    lines = [line for cell in code_of(lesson) for line in lines_of(cell)]
    assert sum(line.strip().startswith("#") for line in lines) < 0.15 * len(lines)


def test_cells_are_safe_anywhere(lesson):
    """No installs, downloads, shell lines or absolute paths; nothing that lets an exception pass for a success."""
    for cell in code_of(lesson):
        assert not re.search(FORBIDDEN, cell.source, re.MULTILINE)
        assert not re.search(r"""["'](?:~?/\w|[A-Z]:\\)""", cell.source), f"absolute path in {cell.id}"
        assert not {"raises-exception", "skip-execution"} & set(tags(cell))


def test_claims_are_asserted(lesson):
    assert sum(cell.source.count("assert ") for cell in code_of(lesson) if not tags(cell)) >= 3


def test_cell_ids(lesson):
    ids = [cell.id for cell in lesson.cells]
    assert len(set(ids)) == len(ids)


def test_predictions_come_before_what_they_predict(lesson):
    cells = code_of(lesson)
    predictions = [i for i, cell in enumerate(cells) if "prediction" in tags(cell)]
    assert predictions
    for i in predictions:
        assert "reveal(" not in cells[i].source
        assert any("reveal(" in cell.source for cell in cells[i + 1 : i + 3]), f"{cells[i].id} is never compared"


def test_exercises(lesson):
    """Each exercise: a stub, then collapsed hints, then a collapsed solution that checks strictly."""
    places = {tag: {} for tag in ("exercise", "solution")}
    for i, cell in enumerate(lesson.cells):
        for tag in places.keys() & set(tags(cell)):
            assert cell.metadata.exercise not in places[tag]
            places[tag][cell.metadata.exercise] = i
    assert places["exercise"] and places["exercise"].keys() == places["solution"].keys()
    for name, stub in places["exercise"].items():
        solution = places["solution"][name]
        assert stub < solution
        between = "\n".join(cell.source for cell in lesson.cells[stub + 1 : solution])
        assert "<details>" in between and "<summary>Hint 1</summary>" in between, f"{name} has no hint"
        cell = lesson.cells[solution]
        assert "hide-cell" in tags(cell) and cell.metadata.jupyter.source_hidden
        assert f"{name}(" in lesson.cells[stub].source and "strict=True" not in lesson.cells[stub].source
        assert f"{name}(" in cell.source and "strict=True" in cell.source


def test_figures_have_captions(lesson):
    source = "\n".join(cell.source for cell in code_of(lesson))
    assert "plt.show(" not in source
    assert source.count("subplots(") <= source.count("show(")


@contextlib.contextmanager
def peak_of_children():
    """Within: watches the memory of the processes that this one has started. Gives a list whose last item is the most.

    In bytes: what each has for itself, and once what they share, such as the code of torch.
    """
    peaks, ended = [0], threading.Event()

    def now():
        own = shared = 0
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has ended, or is about to
                info = process.memory_full_info()
                own, shared = own + info.uss, max(shared, info.rss - info.uss)
        return own + shared

    def watch():
        while not ended.wait(0.2):
            peaks.append(max(peaks[-1], now()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        ended.set()
        watcher.join()


@pytest.mark.timeout(400)
def test_unsolved_then_solved_in_one_kernel(lesson, device, offline):
    """A reader runs all cells with every stub as it is, solves the exercises, and runs all cells again.

    Without a network, and in the memory that the lesson states.
    """
    exercises = sum("exercise" in tags(cell) for cell in lesson.cells)
    both, second = lessons.unsolved(lesson), lessons.solved(lesson)
    first_length = len(both.cells)
    both.cells += second.cells
    for number, cell in enumerate(both.cells):
        cell.id = f"cell-{number}"
    with peak_of_children() as peaks:
        lessons.run(both, device=device)
    assert not lessons.has_error(both)
    if device == "cpu":
        assert lesson.metadata.memory_mib / 3 < peaks[-1] / lesson_memory.MIB <= lesson.metadata.memory_mib
    said = {
        tag: ["".join(output.get("text", "") for output in cell.outputs) for cell in cells if tag in tags(cell)]
        for tag, cells in (("exercise", both.cells[:first_length]), ("solution", both.cells[first_length:]))
    }
    assert len(said["exercise"]) == len(said["solution"]) == exercises
    assert all("not yet: " in text and "right: " not in text for text in said["exercise"])
    assert all("right: " in text and "not yet: " not in text for text in said["solution"])


def test_two_lessons_at_once_from_an_empty_cache(tmp_path, monkeypatch):
    """Both compile the same kernels at the same time, as on the first day of a workshop."""
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path / "cache"))
    chosen = [lessons.unsolved(read(LESSONS[name])) for name in ("10_zero_times_nan", "11_paged_cache_and_padding")]
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda notebook: lessons.run(notebook, device="cpu"), chosen))
    assert [lessons.has_error(notebook) for notebook in ran] == [False, False]
    built = list((tmp_path / "cache").iterdir())
    assert built and [path.name for path in built if path.is_dir()] == []


@pytest.mark.parametrize("name", LESSONS)
def test_executed_copy(name):
    """A stale or missing copy is a warning, so that work without a GPU can go on. One with an error is a failure."""
    state = lessons.copy_state(LESSONS[name])
    if state != "fresh":
        warnings.warn(f"notebooks/executed/{name}.ipynb is {state}: run `make executed` on a GPU", stacklevel=1)
    if state != "missing":
        copy = read(EXECUTED / f"{name}.ipynb")
        assert not lessons.has_error(copy)
        assert {"gpu", "driver", "cuda", "cupy", "torch", "date", "cells", "code"} <= copy.metadata.provenance.keys()
        assert all(copy.metadata.provenance.values())


def test_no_executed_copy_without_its_lesson():
    assert {path.stem for path in EXECUTED.glob("*.ipynb")} <= LESSONS.keys()
