"""Every canary under every tool, and the table of what each tool says to it."""

import datetime
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from helpers import cpu
from helpers.kernel import compile_cuda, device, launch
from helpers.machine import find_tool

from .canaries import THREADS, all_canaries
from .reports import sanitizer_findings
from .runs import NO_POOL, SANITIZER_OPTIONS, TRANSCRIPTS, code_hash, device_name, run_limited, tidy

EVERY_MODE = "every mode\nhas it"  # the scheduler, the check of arguments, the operating system's own faults
CPU_TOOLS = {EVERY_MODE: "fast", "ASan +\nUBSan": "checked", "MSan": "msan", "TSan": "tsan"}
GPU_TOOLS = ("memcheck", "initcheck", "racecheck", "synccheck")
LIMIT = 25  # seconds for one canary under one GPU tool; some of them never end by themselves
RUN_ONE = "import sys; from helpers.tools.canary_table import release_on_gpu; release_on_gpu(sys.argv[1])"


@dataclass(frozen=True)
class Answer:
    """What a tool says to a canary. says: in words. verdict: "caught" at the marked line; "every mode", caught too,
    but by what all modes share (the scheduler, the check of arguments); "elsewhere", it complains about another line;
    "hangs"; "silent"; "absent", it wasn't run."""

    verdict: str
    says: str = ""


def all_in_one() -> str:
    """The text of one source that holds every canary as a kernel of its own name; lines and files stay theirs."""
    parts = [
        f'#line 1 "{canary.path}"\n' + canary.path.read_text().replace(" canary(", f" {canary.name}(")
        for canary in all_canaries()
    ]
    return "\n".join(parts)


def _launch(canary, where):
    """Returns None. Raises what the launch raises."""
    names = [canary.name for canary in all_canaries()]
    kernel = compile_cuda(all_in_one(), names if where == "cpu" else (), device=where).get_function(canary.name)
    source = torch.arange(THREADS, dtype=torch.int32, device=where)
    if canary.name == "uninitialised_global":
        source = torch.empty_like(source) if where == "cuda" else torch.zeros_like(source)
        if where == "cpu":
            cpu.mark_uninitialised(source)
    output = torch.zeros(THREADS, dtype=torch.int32, device=where)
    length = np.int64(THREADS) if canary.name == "wide_scalar" else np.int32(THREADS)
    launch(kernel, 1, THREADS, (source, output, length))


def release_on_gpu(name: str) -> None:
    """What a child process runs under compute-sanitizer."""
    _launch(next(canary for canary in all_canaries() if canary.name == name), "cuda")
    torch.cuda.synchronize()


def _judge(canary, file, line, says):
    caught = canary.lines and file.endswith(canary.path.name) and line in canary.lines
    return Answer("caught" if caught else "elsewhere", says)


def _answer_on_cpu(canary, mode):
    with cpu.mode(mode):
        try:
            _launch(canary, "cpu")
        except cpu.KernelFault as fault:
            return _judge(canary, fault.file or "", fault.line, fault.kind)
        except TypeError:
            return Answer("caught" if canary.tool == "signature" else "elsewhere", "TypeError")
    return Answer("silent")


def on_cpu() -> dict[tuple[str, str], Answer]:
    """{(defect, tool): Answer} of the tools of the CPU build; "absent" where a mode's compiler is missing."""
    missing = cpu.missing_modes()
    answers = {}
    for canary in all_canaries():
        for tool, mode in CPU_TOOLS.items():
            answer = Answer("absent", missing[mode]) if mode in missing else _answer_on_cpu(canary, mode)
            shared = mode != "fast" and answer.says and answer == answers[canary.defect, EVERY_MODE]
            answers[canary.defect, tool] = Answer("every mode", answer.says) if shared else answer
    return answers


def _answer_on_gpu(job):
    canary, tool = job
    program = [sys.executable, "-c", RUN_ONE, canary.name]
    command = [find_tool("compute-sanitizer"), "--tool", tool, *SANITIZER_OPTIONS, *program]
    status, output, _ = run_limited(command, NO_POOL, LIMIT)
    findings = sanitizer_findings(tidy(output))
    for finding in findings:
        answer = _judge(canary, finding.file, next(iter(finding.lines), None), finding.kind)
        if answer.verdict == "caught":
            return answer
    if findings:
        return Answer("elsewhere", f"{findings[0].kind} at {findings[0].file}:{findings[0].lines}")
    if "TypeError" in output and canary.tool == "signature":
        return Answer("every mode", "TypeError")
    if status == "timed out":
        return Answer("hangs", f"no report within {LIMIT} s")
    ended = "ERROR SUMMARY" in output or "RACECHECK SUMMARY" in output
    return Answer("silent") if ended else Answer("absent", (tidy(output).splitlines() or ["no output"])[-1][:200])


def run_gpu_tools(folder: Path = TRANSCRIPTS) -> None:
    """Run each canary under each of compute-sanitizer's tools, several at a time, and store the answers."""
    if not find_tool("compute-sanitizer"):
        print("canaries: compute-sanitizer is not on this machine")
        return
    compile_cuda(all_in_one(), (), device="cuda")  # once, into CuPy's cache, not in every child
    jobs = [(canary, tool) for tool in GPU_TOOLS for canary in all_canaries()]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(_answer_on_gpu, jobs))
    for tool in GPU_TOOLS:
        said = [f"{c.name} {a.verdict}" for (c, t), a in zip(jobs, answers, strict=True) if t == tool and a.says]
        print(f"canaries under {tool}: {', '.join(said) or 'silent'}", flush=True)
    rows = [{"defect": c.defect, "tool": t, **asdict(a)} for (c, t), a in zip(jobs, answers, strict=True)]
    head = {"device": device_name("cuda"), "date": datetime.date.today().isoformat(), "code": code_hash()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "canaries.json").write_text(json.dumps({**head, "answers": rows}, indent=1) + "\n")


def stored_answers(folder: Path | None = None) -> dict | None:
    """What `run_gpu_tools` stored, a dict, or None."""
    path = (folder or TRANSCRIPTS) / "canaries.json"
    return json.loads(path.read_text()) if path.exists() else None


def on_gpu() -> tuple[dict[tuple[str, str], Answer], str]:
    """({(defect, tool): Answer}, where they come from) of compute-sanitizer's tools: as stored; run again on a GPU
    if the kernels have changed since; else all "absent"."""
    stored = stored_answers()
    if (not stored or stored["code"] != code_hash()) and device() == "cuda" and find_tool("compute-sanitizer"):
        with tempfile.TemporaryDirectory() as folder:
            run_gpu_tools(Path(folder))
            stored = stored_answers(Path(folder))
    if not stored:
        absent = Answer("absent", "no stored transcript yet")
        return {(canary.defect, tool): absent for canary in all_canaries() for tool in GPU_TOOLS}, absent.says
    answers = {(row["defect"], row["tool"]): Answer(row["verdict"], row["says"]) for row in stored["answers"]}
    return answers, f"as run on {stored['device']}, {stored['date']}"
