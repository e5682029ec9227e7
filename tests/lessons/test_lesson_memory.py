"""What a lesson says of memory: what it takes, what is free, and when it warns."""

import psutil
import pytest

from helpers import lessons
from helpers.lessons import files, memory as lesson_memory
from helpers.lessons.files import NOTEBOOKS, read

pytestmark = pytest.mark.no_gpu

MIB = lesson_memory.MIB
UNLIMITED = 9223372036854771712  # as version 1 of control groups writes it


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 1000 MiB free and no control groups yet; a function adds one."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": 1000 * MIB}))
    (tmp_path / "proc/self").mkdir(parents=True)

    def add(folder, names, limit, used, droppable):
        group = tmp_path / "sys/fs/cgroup" / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / names[0]).write_text(f"{limit}\n")
        (group / names[1]).write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"anon 5\n{names[2]} {droppable}\n")

    def member(*lines):
        (tmp_path / "proc/self/cgroup").write_text("".join(f"{line}\n" for line in lines))

    return tmp_path, add, member


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_free_without_control_groups(machine):
    assert lesson_memory.free(machine[0]) == 1000


def test_the_tightest_group_around_a_process_counts(machine):
    root, add, member = machine
    member("0::/user.slice/user 1.scope")
    add("user.slice", V2, 700 * MIB, 500 * MIB, 100 * MIB)
    add("user.slice/user 1.scope", V2, "max", 500 * MIB, 0)
    assert lesson_memory.free(root) == 300
    add("user.slice/user 1.scope", V2, 600 * MIB, 500 * MIB, 0)
    assert lesson_memory.free(root) == 100
    add("user.slice/user 1.scope", V2, 400 * MIB, 500 * MIB, 0)
    assert lesson_memory.free(root) == 0
    add("other.slice", V2, 1, 1, 0)
    add("user.slice/user 1.scope", V2, 5000 * MIB, 0, 0)
    add("user.slice", V2, 5000 * MIB, 0, 0)
    assert lesson_memory.free(root) == 1000


def test_version_1_and_a_container_that_sees_only_its_own_group(machine):
    """In a container the path is the host's, while the group lies at the root of the mount."""
    root, add, member = machine
    member("3:cpu,cpuacct:/docker/abc", "4:memory:/docker/abc", "0::/")
    add("memory", V1, UNLIMITED, 500 * MIB, 0)
    assert lesson_memory.free(root) == 1000
    add("memory", V1, 800 * MIB, 500 * MIB, 50 * MIB)
    assert lesson_memory.free(root) == 350


def test_what_is_stated_is_the_lesson_s_own_and_else_the_largest():
    each = {path.name: read(path).metadata.memory_mib for path in files.lessons()}
    for name, mib in each.items():
        assert lesson_memory.stated(NOTEBOOKS / name) == lesson_memory.stated(name) == mib
    largest = max(each.values())
    assert min(each.values()) < largest
    assert lesson_memory.stated() == lesson_memory.stated("my_notes.ipynb") == largest


def test_banner_warns_where_less_is_there_than_the_lesson_needs(monkeypatch, capsys):
    monkeypatch.setenv("JPY_SESSION_NAME", str(NOTEBOOKS / "10_zero_times_nan.ipynb"))
    monkeypatch.setattr(psutil.Process, "memory_info", lambda self: type("Info", (), {"rss": 100 * MIB}))
    needed = lesson_memory.stated("10_zero_times_nan.ipynb")
    monkeypatch.setattr(lesson_memory, "free", lambda: needed - 100)
    lessons.banner()
    assert "memory" not in capsys.readouterr().out
    monkeypatch.setattr(lesson_memory, "free", lambda: needed - 101)
    lessons.banner()
    lines = [line for line in capsys.readouterr().out.splitlines() if "memory" in line]
    assert len(lines) == 1 and f"take {needed} MiB of memory, and {needed - 1} MiB are there" in lines[0]
