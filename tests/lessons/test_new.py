"""`python -m helpers.lessons new`: a lesson with every stub in place has its form; and what each rule of it says."""

import pytest

from helpers.lessons import files, form
from helpers.lessons.new import new

pytestmark = pytest.mark.no_gpu


@pytest.fixture
def project(tmp_path):
    for folder in ("notebooks", "helpers/exercises", "tests/exercises"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_a_new_lesson_has_its_form(project):
    notebook, checker, tests = new(7, "A title: with signs!", project)
    assert notebook.name == "07_a_title_with_signs.ipynb"
    assert files.title(files.read(notebook)) == "A title: with signs!"
    assert form.faults(files.read(notebook)) == []
    assert checker.name == "lesson_07.py" and tests.name == "test_exercises_lesson_07.py"
    compile(checker.read_text(), "checker", "exec")
    compile(tests.read_text(), "tests", "exec")


@pytest.mark.parametrize(
    ("number", "title", "words"),
    [(-1, "A title", "number is -1"), (100, "A title", "number is 100"), (7, "?!", "title is '?!'")],
)
def test_bad_words_are_refused_and_nothing_is_written(project, number, title, words):
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        new(number, title, project)
    assert [path for path in project.rglob("*") if path.is_file()] == []


def test_a_lesson_that_is_there_stays_as_it_is(project):
    notebook, *_ = new(7, "A title", project)
    notebook.write_text("mine")
    with pytest.raises(ValueError, match="07_a_title.ipynb is there already"):
        new(7, "Another title", project)
    assert notebook.read_text() == "mine" and len(list(project.glob("notebooks/*"))) == 1


FAULTY = {  # the cell to spoil, its new source or metadata, and what the sentence says
    "no sentence": ("opening", "# A title", "opens with `# title`"),
    "a long first cell": ("setup", "x = 1\n" * 13 + "banner()", "at most 12 lines"),
    "no recap": ("recap", "## Recap", "`## Recap` lists as many"),
    "a section without minutes": ("first-heading", "## First", "section 'First'"),
    "a long cell": ("first-prediction", "x = 1\n" * 26, "cell first-prediction, 26 lines"),
    "a shell line": ("first-claim", "!ls", "calls the shell"),
    "an absolute path": ("first-claim", "open('/etc/hosts')", "absolute path (cell first-claim)"),
    "a hidden exception": ("first-claim", {"tags": ["raises-exception"]}, "raises-exception"),
    "no claim": ("first-claim", "pass", "asserts at least 3"),
    "revealed at once": ("first-prediction", "checks.reveal(1, 1, '')", "not compared in its own cell"),
    "never revealed": ("first-reveal", "pass", "compares it by `checks.reveal` (cell first-prediction)"),
    "an exercise without its name": ("exercise", {"exercise": None}, "metadata entry `exercise` (cell exercise)"),
    "no memory": (None, {"memory_mib": None}, "`memory_mib` is an int"),
    "no hint": ("hints", "Good luck.", "<summary>Hint 1</summary>"),
    "an open solution": ("solution", {"jupyter": None}, "A solution is collapsed"),
    "a lenient solution": ("solution", "exercises.doubled_07(x)", "with strict=True"),
    "a bare figure": ("first-claim", "plt.show()", "goes through `figures.show`"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_each_rule_is_one_sentence_that_names_the_place(project, fault):
    notebook = files.read(new(7, "A title", project)[0])
    name, change, words = FAULTY[fault]
    cell = next((cell for cell in notebook.cells if cell.id == name), notebook)
    if isinstance(change, dict):
        cell.metadata.update(change)
    else:
        cell.source = change
    faults = form.faults(notebook)
    assert any(words in sentence for sentence in faults), faults
    assert all("\n" not in sentence and len(sentence) < 200 for sentence in faults)


def test_two_cells_of_one_name(project):
    notebook = files.read(new(7, "A title", project)[0])
    notebook.cells[3].id = notebook.cells[4].id
    assert form.faults(notebook) == [f"Each cell has an id of its own (id {notebook.cells[3].id} stands twice)."]
