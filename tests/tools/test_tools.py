"""The tools' reports as objects, their runs, and what is stored of them."""

import json
import os
import subprocess
import sys
import time
import warnings

import pytest

from helpers.kernel import KERNELS, device as best_device
from helpers.proof import shipped
from helpers.tools import canary_table, cases, experiments as gpu_tools, runs as tool_runs
from helpers.tools.canaries import all_canaries
from helpers.tools.reports import (
    bare_name,
    coredump_findings,
    gdb_findings,
    printed_rows,
    sanitizer_count,
    sanitizer_findings,
)
from helpers.tools.runs import ToolRun, load, run_limited, run_tool, store, tidy

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at void sparse_attention<float, (Sentinel)0>(const T1 *, int)+0x9e0 in sparse_attention.cu:51
=========     by thread (96,0,0) in block (2,1,0)
=========     Access to 0x3f00 is out of bounds
=========     and is 12,345 bytes before the nearest allocation at 0x7f00 of size 8,192 bytes
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call.
========= ERROR SUMMARY: 33 errors
========= ERROR SUMMARY: 29 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at topk_transform(int *)+0x70 in /somewhere/kernels/inline.cu:184
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at topk_transform(int *)+0x80 in /somewhere/kernels/inline.cu:185
=========     by thread (0,0,0) in block (1,0,0)
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at void topk_transform<(Overflow)0>(int *)+0x580 in inline.cu:104
=========     and Read access at void topk_transform<(Overflow)0>(int *)+0x890 in inline.cu:221 [64 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Invalid arguments.
=========     at __syncwarp(unsigned int)+0xe0 in sm_30_intrinsics.hpp:110
=========     by thread (3,0,0) in block (0,0,0)
=========         Device Frame: wrong_mask(const int *, int *, int)+0xe0 in wrong_mask.cu:15
========= ERROR SUMMARY: 4 errors
"""
CLEAN = "========= COMPUTE-SANITIZER\nhello\n========= ERROR SUMMARY: 0 errors\n"
COREDUMP = """\
Opening GPU coredump: core
[Current focus set to CUDA kernel 0, grid 7, block (2,1,0), thread (96,0,0), device 0, sm 130, warp 3, lane 0]

CUDA Exception: Warp Illegal Address
The exception was triggered at PC 0x7f31abb9f6d0  sparse_attention<float>(float const*) (sparse_attention.cu:51)
#0  0x00007f31abb9f6e0 in sparse_attention<float, (Sentinel)0><<<(1,1,1),(128,1,1)>>> ()
  Kernel Parent Dev Grid Status   SMs Mask GridDim  BlockDim Invocation
*      0      -   0    7 Active 0x00000001 (1,1,1) (128,1,1) sparse_attention<float, (Sentinel)0>()
*> 0x7f31abb9f6d0 <_Z16sparse_attentionIfL8Sentinel0EEvPKT_+2512>:\tLDG.E R19, desc[UR6][R18.64]
"""
GDB = """\
Thread 1 "python" received signal SIGSEGV, Segmentation fault.
#0  0x00007ffff444338e in sparse_attention<float, (Sentinel)0> () at kernels/sparse_attention.cu:51
$1 = {31, 0, 0}
$2 = {4, 1, 0}
=> 0x7ffff444338e <_Z16sparse_attention+574>:\tmulss  (%rdx,%rax,4),%xmm2
"""


def test_memcheck_report():
    (finding,) = sanitizer_findings(MEMCHECK)
    assert finding.kind == "Invalid __global__ read of size 4 bytes"
    assert (finding.kernel, finding.file, finding.lines) == ("sparse_attention", "sparse_attention.cu", (51,))
    assert (finding.thread, finding.block) == ((96, 0, 0), (2, 1, 0))
    assert sanitizer_count(MEMCHECK) == 33
    assert "block (2, 1, 0), thread (96, 0, 0)" in str(finding)


def test_initcheck_report():
    first, second = sanitizer_findings(INITCHECK)
    assert (first.file, first.lines, first.thread) == ("inline.cu", (184,), (31, 0, 0))
    assert second.lines == (185,) and sanitizer_count(INITCHECK) == 2


def test_racecheck_report_names_both_lines():
    (finding,) = sanitizer_findings(RACECHECK)
    assert finding.kind == "Race reported" and finding.lines == (104, 221) and finding.kernel == "topk_transform"
    assert sanitizer_count(RACECHECK) == 1


def test_racecheck_report_that_is_wrapped():
    wrapped = RACECHECK
    for word in (" in inline.cu", " void topk"):
        wrapped = wrapped.replace(word, f"\n=========    {word}")
    assert sanitizer_findings(wrapped) == sanitizer_findings(RACECHECK)


def test_synccheck_report_names_the_caller_of_an_intrinsic():
    (finding,) = sanitizer_findings(SYNCCHECK)
    assert (finding.kernel, finding.file, finding.lines) == ("wrong_mask", "wrong_mask.cu", (15,))
    assert finding.kind == "Barrier error detected. Invalid arguments"


@pytest.mark.parametrize("text", ["", CLEAN, "no report at all", "========= Program hit cudaErrorNoDevice\n"])
def test_nothing_found(text):
    assert sanitizer_findings(text) == []
    assert sanitizer_count(text) == (0 if text == CLEAN else None)


def test_coredump():
    (finding,) = coredump_findings(COREDUMP)
    assert finding.kind == "Warp Illegal Address" and finding.kernel == "sparse_attention"
    assert (finding.file, finding.lines) == ("sparse_attention.cu", (51,))
    assert (finding.block, finding.thread) == ((2, 1, 0), (96, 0, 0))
    assert finding.instruction == "LDG.E R19, desc[UR6][R18.64]"
    assert coredump_findings("core: No such file or directory.") == []


def test_gdb():
    (finding,) = gdb_findings(GDB)
    assert (finding.kind, finding.kernel, finding.lines) == ("SIGSEGV", "sparse_attention", (51,))
    assert (finding.thread, finding.block) == ((31, 0, 0), (4, 1, 0))
    assert finding.instruction == "mulss (%rdx,%rax,4),%xmm2"
    assert gdb_findings("[Inferior 1 (process 7) exited normally]") == []


@pytest.mark.parametrize(
    ("signature", "name"),
    [("void k<(A)0, 12>(const T1 *)", "k"), ("k(int)", "k"), ("k", "k"), ("k<float><<<(1,1,1)>>> ()", "k"), ("", "")],
)
def test_bare_name(signature, name):
    assert bare_name(signature) == name


def test_tidy_leaves_no_trace_of_this_machine():
    text = f"{tool_runs.ROOT}/kernels/a.cu:3\n=========\n/usr/lib/x86_64/libcuda.so.1\n"
    text += 'Traceback (most recent call last):\n  File "/x/y.py", line 3\n\nKept: this'
    assert tidy(text) == "kernels/a.cu:3\nlibcuda.so.1\nKept: this"


def test_a_run_past_its_limit_is_killed_with_its_children(tmp_path):
    program = "import subprocess, sys, time; print('began', flush=True); "
    program += f"subprocess.Popen(['sh', '-c', 'sleep 3; touch {tmp_path}/alive'], start_new_session=True); "
    program += "time.sleep(60)"
    status, output, seconds = run_limited([sys.executable, "-c", program], {}, 1)
    assert status == "timed out" and "began" in output and seconds < 15
    time.sleep(3.5)
    assert list(tmp_path.iterdir()) == []


def fake_tool(folder, name, report):
    tool = folder / name
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{report}\nEND\n")
    tool.chmod(0o755)


@pytest.fixture(autouse=True)
def runs_of_its_own():
    """No test sees what another one's tool said."""
    gpu_tools._run_once.cache_clear()


@pytest.fixture
def fake_gpu(tmp_path, monkeypatch):
    """A machine with a GPU and NVIDIA's tools, as far as helpers.tools can tell."""
    fake_tool(tmp_path, "compute-sanitizer", MEMCHECK)
    fake_tool(tmp_path, "cuda-gdb", COREDUMP)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(gpu_tools, "device", lambda: "cuda")
    monkeypatch.setattr(gpu_tools, "_help", lambda: "")
    monkeypatch.setattr(tool_runs, "device_name", lambda where: "some GPU")
    return tmp_path


def test_live_where_the_tool_is(fake_gpu, capsys):
    run = gpu_tools.see("memcheck")
    assert run and not run.stored and run.status == "finished" and run.count == 33
    (code,) = run.code_of(run.findings[0])
    assert code == (KERNELS / "sparse_attention.cu").read_text().splitlines()[50].strip()
    run.show(most_lines=2)
    said = capsys.readouterr().out
    assert said.startswith("[live, ")
    assert "$ compute-sanitizer --tool memcheck python -m helpers.tools case decode_step" in said
    assert "more lines" in said


def test_an_option_that_this_version_lacks(fake_gpu):
    assert "has no option --initcheck-address-space" in gpu_tools.missing("initcheck_shared")


def test_coredump_of_a_program_that_dies(fake_gpu, monkeypatch):
    monkeypatch.setattr(gpu_tools, "run_limited", lambda command, environment, limit: ("finished", "", 0.0))
    assert gpu_tools.see("coredump").findings[0].kind == "Warp Illegal Address"


def test_stored_where_the_tool_is_absent(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_tools, "missing", lambda name: "compute-sanitizer is not on this machine")
    made = run_tool("memcheck", "compute-sanitizer", ["printf", "%s", MEMCHECK], "typed", {}, 10, "cpu")
    store(made, tmp_path)
    monkeypatch.setattr(gpu_tools, "load", lambda name: load(name, tmp_path))
    run = gpu_tools.see("memcheck")
    assert run.stored and run.fresh and run.findings == made.findings and run.sources == made.sources
    run.show(containing="Invalid")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"[stored, {made.date}, ") and len(said) == 2


def test_neither_tool_nor_transcript(monkeypatch, capsys):
    monkeypatch.setattr(gpu_tools, "missing", lambda name: "no GPU is in use here")
    monkeypatch.setattr(gpu_tools, "load", lambda name: None)
    run = gpu_tools.see("racecheck")
    assert not run and run.findings == [] and run.count is None
    run.show()
    assert "no stored transcript yet" in capsys.readouterr().out


@pytest.mark.skipif(best_device() == "cuda", reason="this machine has a GPU")
def test_record_refuses_to_run_without_a_gpu(tmp_path):
    command = [sys.executable, "-m", "helpers.tools", "record", "--output", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "come from a GPU" in done.stderr and list(tmp_path.iterdir()) == []


def test_record_goes_on_when_a_tool_fails(tmp_path, monkeypatch, capsys):
    def run(name):
        if name == "memcheck":
            raise OSError("no such tool")
        return ToolRun(name, "", "", "finished", "said")

    monkeypatch.setattr(gpu_tools, "missing", lambda name: None)
    monkeypatch.setattr(gpu_tools, "run", run)
    monkeypatch.setattr(gpu_tools, "run_gpu_tools", lambda folder: None)
    monkeypatch.setattr(gpu_tools, "device_name", lambda where: "some GPU")
    others = {name for name, it in gpu_tools.EXPERIMENTS.items() if it.where == "cuda"} - {"memcheck"}
    assert gpu_tools.record(tmp_path) == len(others)
    assert {path.stem for path in tmp_path.iterdir()} == others
    assert "no such tool" in capsys.readouterr().out


def test_a_case_under_a_mode(capsys):
    fault = tool_runs.under("checked", cases.decode_step)
    assert fault.kind == "out of bounds" and fault.argument == "page_table"
    said = capsys.readouterr().out
    assert "[live, CPU, mode checked] decode_step" in said and "row_pages[position >> page_bits]" in said
    assert str(tool_runs.ROOT) not in said
    assert tool_runs.under("fast", cases.fixed_step) is None and "nothing to report" in capsys.readouterr().out


def test_a_mode_that_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(tool_runs.cpu, "missing_modes", lambda: {"msan": "clang: apt-get install it"})
    assert tool_runs.under("msan", cases.select) is None
    assert "[not run] mode msan needs clang: apt-get install it" in capsys.readouterr().out


def test_every_experiment_names_a_case():
    assert {experiment.case for experiment in gpu_tools.EXPERIMENTS.values()} <= set(cases.CASES)


def test_an_unknown_case_is_refused(capsys):
    assert cases.run("no_such_case") == 2 and "decode_step" in capsys.readouterr().err


def test_a_splice_keeps_lines_or_fails():
    original = (KERNELS / "topk_transform.cu").read_text().splitlines()
    for source in (cases.staging_in_global(), cases.without_barrier(), cases.with_report()):
        lines = source.splitlines()
        changed = [i for i, (a, b) in enumerate(zip(original, lines, strict=True)) if a != b]
        assert 1 <= len(changed) <= 3
    with pytest.raises(ValueError, match="is there 0 times"):
        cases.spliced("not in the kernel", "")
    with pytest.raises(ValueError, match="lines would move"):
        cases.spliced(cases.TRANSFORM, "\n")


def test_printed_rows_are_those_that_overflow():
    done = subprocess.run(
        [sys.executable, "-m", "helpers.tools", "case", "report_rows"],
        capture_output=True, text=True, env=os.environ | {"KERNEL_DEVICE": "cpu", "KERNEL_MODE": "fast"},
    )  # fmt: skip
    rows = printed_rows(done.stdout)
    assert done.returncode == 0 and len(rows) == len(done.stdout.splitlines()) > 5
    assert all(in_bin > 1024 for _, in_bin in rows)
    assert any(above < 1024 for above, _ in rows) and any(above >= 1024 for above, _ in rows)


def test_every_kernel_is_among_the_shipped_runs():
    """A new kernel belongs into helpers/proof/shipped.py, so that `make sanitize` runs it under every tool."""
    assert {path.stem for path in KERNELS.glob("*.cu")} == set(shipped.RUNS)


def test_transcripts():
    """A missing or stale transcript is a warning, so that work without a GPU can go on."""
    old = []
    for name, experiment in gpu_tools.EXPERIMENTS.items():
        run = load(name)
        if experiment.where == "cpu" or (not run and experiment.options):
            continue
        if run is None or not run.fresh:
            old.append(name)
        assert not run or (run.date and run.device and run.command and run.text)
    stored = canary_table.stored_answers()
    if stored is None or stored["code"] != tool_runs.code_hash():
        old.append("canaries")
    if old:
        text = f"transcripts missing or stale: {', '.join(old)}; run `python -m helpers.tools record` on a GPU"
        warnings.warn(text, stacklevel=1)
    if stored:
        wanted = {(canary.defect, tool) for canary in all_canaries() for tool in canary_table.GPU_TOOLS}
        assert {(row["defect"], row["tool"]) for row in stored["answers"]} == wanted


def test_the_named_tool_catches_each_canary_in_the_table():
    answers = canary_table.on_cpu()
    column = {mode: tool for tool, mode in canary_table.CPU_TOOLS.items()}
    for canary in all_canaries():
        answer = answers[canary.defect, column[canary.mode]]
        assert answer.verdict in ("caught", "absent"), (canary.defect, answer)


def test_without_a_gpu_its_tools_are_absent_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(canary_table, "TRANSCRIPTS", tmp_path)
    monkeypatch.setattr(canary_table, "device", lambda: "cpu")
    answers, said = canary_table.on_gpu()
    assert {answer.verdict for answer in answers.values()} == {"absent"} and "no stored transcript yet" in said


def test_canaries_under_a_gpu_tool(tmp_path, monkeypatch, capsys):
    """With a tool that blames one line whatever it runs: right for one canary, elsewhere for the others."""
    (canary,) = [canary for canary in all_canaries() if canary.name == "wrong_mask"]
    fake_tool(tmp_path, "compute-sanitizer", SYNCCHECK.replace("cu:15", f"cu:{canary.lines[0]}"))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(canary_table, "compile_cuda", lambda *arguments, **options: None)
    monkeypatch.setattr(canary_table, "device_name", lambda where: "some GPU")
    canary_table.run_gpu_tools(tmp_path)
    answers = json.loads((tmp_path / "canaries.json").read_text())["answers"]
    verdicts = {(row["defect"], row["verdict"]) for row in answers}
    assert ("wrong mask", "caught") in verdicts and ("deadlock", "elsewhere") in verdicts
    assert len(answers) == 4 * len(all_canaries())
