import subprocess
import sys

import pytest

from helpers import cpu, doctor
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
    assert doctor.main() == 1


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
