"""Every lesson: its form, its exercises unsolved and solved in one kernel, and its executed copy."""

import contextlib
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch

from helpers.lessons import files, form, memory
from helpers.lessons.copies import EXECUTED, why_stale
from helpers.lessons.files import has_error, read, tags
from helpers.lessons.running import run

LESSONS = {path.stem: path for path in files.lessons()}


@pytest.fixture(params=LESSONS)
def lesson(request):
    return read(LESSONS[request.param])


@pytest.mark.no_gpu
def test_form(lesson):
    assert form.faults(lesson) == []


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
    both, second = files.unsolved(lesson), files.solved(lesson)
    first_length = len(both.cells)
    both.cells += second.cells
    for number, cell in enumerate(both.cells):
        cell.id = f"cell-{number}"
    with peak_of_children() as peaks:
        run(both, device=device)
    assert not has_error(both)
    if torch.version.cuda is None:  # with CUDA's libraries loaded, every process takes more
        assert lesson.metadata.memory_mib / 3 < peaks[-1] / memory.MIB <= lesson.metadata.memory_mib
    said = {
        tag: ["".join(output.get("text", "") for output in cell.outputs) for cell in cells if tag in tags(cell)]
        for tag, cells in (("exercise", both.cells[:first_length]), ("solution", both.cells[first_length:]))
    }
    assert len(said["exercise"]) == len(said["solution"]) == exercises
    assert all("not yet: " in text and "right: " not in text for text in said["exercise"])
    assert all("right: " in text and "not yet: " not in text for text in said["solution"])


@pytest.mark.no_gpu
def test_two_lessons_at_once_from_an_empty_cache(tmp_path, monkeypatch):
    """Both compile the same kernels at the same time, as on the first day of a workshop."""
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path / "cache"))
    chosen = [files.unsolved(read(LESSONS[name])) for name in ("10_zero_times_nan", "11_paged_cache_and_padding")]
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda notebook: run(notebook, device="cpu"), chosen))
    assert [has_error(notebook) for notebook in ran] == [False, False]
    built = list((tmp_path / "cache").iterdir())
    assert built and [path.name for path in built if path.is_dir()] == []


@pytest.mark.no_gpu
@pytest.mark.parametrize("name", LESSONS)
def test_executed_copy(name):
    """A stale or missing copy is a warning, so that work without a GPU can go on. One with an error is a failure."""
    reason = why_stale(LESSONS[name])
    if reason:
        warnings.warn(f"notebooks/executed/{name}.ipynb: {reason}; run `make executed` on a GPU", stacklevel=1)
    if not (EXECUTED / f"{name}.ipynb").exists():
        return
    copy = read(EXECUTED / f"{name}.ipynb")
    assert not has_error(copy)
    if not reason:
        assert all(copy.metadata.provenance[key] for key in ("gpu", "driver", "cuda", "cupy", "torch", "date", "files"))


def test_no_executed_copy_without_its_lesson():
    assert {path.stem for path in EXECUTED.glob("*.ipynb")} <= LESSONS.keys()
