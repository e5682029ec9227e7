import os
import subprocess
import sys

import pytest

from helpers import cpu, doctor
from helpers.cpu import build, compilers
from helpers.doctor import Finding
from helpers.kernel import _why_no_cuda


def test_screen_fits_a_terminal_and_names_everything():
    text = doctor.screen()
    lines = text.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 140
    for what in ("torch", "CuPy", "CUDA majors", "NVRTC", "GPU", "compute-sanitizer", "cuda-gdb", "gdb"):
        assert what in text
    assert all(f"mode {mode}" in text for mode in cpu.MODES)


def test_command_ends_well_where_the_lessons_run():
    done = subprocess.run([sys.executable, "-m", "helpers.doctor"], capture_output=True, text=True)
    assert done.returncode == 0 and "The lessons" in done.stdout or "Everything is here" in done.stdout
    assert done.stdout.strip() == doctor.screen().strip()


def test_a_missing_thing_has_a_cost_and_a_command():
    found = [Finding("Python", "3.11", needed=True), Finding("gdb", "", "no debugger", "sudo apt-get install gdb")]
    text = doctor.screen(found)
    assert "-- " in text and "costs: no debugger" in text and "fix:   sudo apt-get install gdb" in text
    assert "The lessons run. Missing: 1 of 2." in text
    assert "`sudo apt-get install gdb`" in doctor.table(found) and "**missing**" in doctor.table(found)


def test_everything_is_here():
    assert "Everything is here." in doctor.screen([Finding("Python", "3.11")])


def test_system_packages_come_in_one_command_each_once():
    found = [
        Finding("a", "", "x", "sudo apt-get install g++"),
        Finding("b", "", "x", "sudo apt-get install g++"),
        Finding("c", "", "x", "sudo apt-get install clang-19 libclang-rt-19-dev"),
        Finding("d", "", "x", doctor.TOOLKIT),
        Finding("e", "1.0", "x", "sudo apt-get install here-already"),
    ]
    assert doctor.in_one_command(found) == "sudo apt-get install g++ clang-19 libclang-rt-19-dev"


def test_without_any_compiler(monkeypatch):
    monkeypatch.setattr(cpu, "missing_modes", lambda: dict.fromkeys(cpu.MODES, "a compiler"))
    monkeypatch.setattr(doctor, "_why_no_cuda", lambda: "this test says so")
    found = doctor.findings()
    assert not doctor.can_run(found)
    assert "The lessons can't run here yet." in doctor.screen(found)
    monkeypatch.setattr(doctor, "findings", lambda: found)
    assert doctor.main([]) == 1


def test_a_gpu_makes_up_for_a_missing_compiler(monkeypatch):
    monkeypatch.setattr(cpu, "missing_modes", lambda: dict.fromkeys(cpu.MODES, "a compiler"))
    monkeypatch.setattr(doctor, "_why_no_cuda", lambda: None)
    monkeypatch.setattr(doctor, "driver_version", lambda: "999.1")
    assert doctor.can_run(doctor.findings())


def test_a_gpu_that_is_too_old_is_named(monkeypatch):
    """From what torch says of it to the screen; the lessons run all the same."""
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(doctor.torch.cuda, "get_device_capability", lambda: (7, 0))
    monkeypatch.setattr(doctor.torch.cuda, "get_device_name", lambda: "Tesla V100-SXM2-16GB")
    monkeypatch.setattr(cupy.cuda, "is_available", lambda: True)
    monkeypatch.setattr(doctor, "_why_no_cuda", _why_no_cuda.__wrapped__)
    (line,) = [finding for finding in doctor.findings() if finding.what == "GPU"]
    assert not line.found and line.costs.startswith(
        "Tesla V100-SXM2-16GB (compute capability 7.0) is too old for CUDA 13, which needs 7.5. "
        "Every cell still runs, on the CPU"
    )
    assert max(map(len, doctor.screen([line]).splitlines())) <= 140


@pytest.mark.parametrize(
    ("majors", "found"), [((None, 13), True), ((13, 13), True), ((12, 13), False), ((13, None), False)]
)
def test_cuda_majors_must_agree(monkeypatch, majors, found):
    monkeypatch.setattr(doctor, "cuda_majors", lambda: majors)
    (line,) = [finding for finding in doctor.findings() if finding.what == "CUDA majors"]
    assert bool(line.found) == found
    assert found or f"cupy-cuda{majors[0]}x" in line.fix


def test_headers_missing_for_nvrtc(monkeypatch):
    monkeypatch.setattr(doctor, "cuda_include_dirs", lambda: [])
    (line,) = [finding for finding in doctor.findings() if finding.what == "NVRTC"]
    assert not line.found and line.fix == doctor.INSTALL


def test_tools_are_found_outside_path_too(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "some-cuda-tool"
    tool.write_text("#!/bin/sh\necho version 7\n")
    tool.chmod(0o755)
    assert doctor.find_tool("some-cuda-tool") is None
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert doctor.find_tool("some-cuda-tool") == str(tool)
    assert doctor.first_line([str(tool)]) == "version 7"
    assert doctor.first_line([str(tmp_path / "nothing")]) == ""


def line(found, what):
    return next(finding for finding in found if finding.what == what)


@pytest.mark.parametrize("kind", ("a file", "no folder can be made", "the disk is full", "no home"))
def test_a_cache_that_cannot_be_written_keeps_the_lessons_from_running(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_why_no_cuda", lambda: "this test says so")
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path / "cache"))
    match kind:
        case "a file":
            (tmp_path / "cache").touch()
        case "no folder can be made":
            monkeypatch.setenv("KERNEL_CACHE", "/proc/no-folder-can-be-made-here")
        case "the disk is full":
            monkeypatch.setattr(doctor.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "wb", buffering=0))
        case "no home":
            monkeypatch.delenv("KERNEL_CACHE")
            monkeypatch.delenv("HOME")
            monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # KeyError, as for an unknown user
    found = doctor.findings()
    cache = line(found, "kernel cache")
    assert not cache.found and cache.fix.startswith("export KERNEL_CACHE=")
    assert not doctor.can_run(found) and "The lessons can't run here yet." in doctor.screen(found)
    assert kind == "the disk is full" or line(found, "mode fast").fix == cache.fix


def test_a_cache_that_can_be_written_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path / "new"))
    assert line(doctor.findings(), "kernel cache").found == str(tmp_path / "new")
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".so"]  # what mode fast was proved with


def test_a_compiler_that_builds_nothing_keeps_the_lessons_from_running(monkeypatch):
    def fail(mode):
        raise cpu.CompileError("g++: fatal error: cannot execute 'cc1plus'\ncompilation terminated.")

    monkeypatch.setattr(doctor, "_why_no_cuda", lambda: "this test says so")
    monkeypatch.setattr(doctor, "build_runtime", fail)
    found = doctor.findings()
    fast = line(found, "mode fast")
    assert "cannot execute 'cc1plus'" in fast.costs and fast.fix == doctor.COMPILER and not doctor.can_run(found)
    assert "cannot execute 'cc1plus'" in doctor.screen(found)


def test_a_folder_that_cupy_cannot_make_is_no_crash(tmp_path):
    """CuPy makes its cache folder as it is imported. HOME unset and the user unknown: it means a folder named ~."""
    program = """
import pwd
pwd.getpwuid = {}.__getitem__
from helpers import doctor
raise SystemExit(doctor.main([]))
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "CUPY_CACHE_DIR")}
    environment |= {"KERNEL_CACHE": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd="/proc", capture_output=True, text=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    at = next(number for number, text in enumerate(lines) if text.startswith("--  CuPy"))
    assert "No such file or directory" in lines[at + 1] and "CUPY_CACHE_DIR=" in lines[at + 2]
    assert "ok  mode fast" in done.stdout and "The lessons run." in done.stdout


def test_compiler_is_the_one_that_builds(monkeypatch):
    monkeypatch.setattr(compilers, "toolchain", lambda mode: "a C++ compiler")
    assert compilers.compiler() == ""
    monkeypatch.undo()
    assert compilers.compiler() == build.toolchain("fast").version.splitlines()[0]
