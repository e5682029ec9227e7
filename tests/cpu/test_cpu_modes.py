"""Modes of the CPU build: what a fault looks like, that nothing outlives it, and that results come back."""

import contextlib
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import interrupted, running, wait_until

from helpers import compile_cuda, cpu, launch
from helpers.cpu.build import cache_folder
from helpers.processes import KEPT

pytestmark = pytest.mark.no_gpu

i32 = np.int32
CHILD_MODES = [mode for mode in cpu.MODES if mode != "fast"]


@pytest.fixture(params=cpu.MODES)
def mode(request):
    if reason := cpu.missing_modes().get(request.param):
        pytest.skip(f"mode {request.param} needs {reason}")
    return request.param


@pytest.fixture(params=CHILD_MODES)
def child_mode(request):
    if reason := cpu.missing_modes().get(request.param):
        pytest.skip(f"mode {request.param} needs {reason}")
    return request.param


def kernel(code, parameters="int* out, int n"):
    source = f'\nextern "C" __global__ void kernel({parameters}) {{\n  int t = threadIdx.x;\n  {code}\n}}\n'
    return compile_cuda(source, device="cpu").get_function("kernel")  # `code` starts on line 4


def fault_of(code, mode="fast", threads=64, n=0):
    out = torch.zeros(64, dtype=torch.int32)
    with cpu.mode(mode), pytest.raises(cpu.KernelFault) as caught:
        launch(kernel(code), 2, threads, (out, i32(n)))
    return caught.value


# ---- every mode ----------------------------------------------------------------------------------------


def test_overlapping_views_and_scalars_come_back(mode):
    """k and v as views of one tensor, one written through another view; a mode that copies them apart fails."""
    both = torch.arange(64, dtype=torch.int32).view(8, 8)
    k, v = both[:, :4], both[:, 4:]
    code = "if (t < n) for (int i = 0; i < 4; ++i) v[t * 8 + i] = 100 + k[t * 8 + i];"
    with cpu.mode(mode):
        launch(kernel(code, "const int* k, int* v, int n"), 1, 32, (k, v, i32(8)))
    want = torch.arange(64, dtype=torch.int32).view(8, 8)
    want[:, 4:] = want[:, :4] + 100
    assert both.tolist() == want.tolist()


def test_a_fault_leaves_the_process_and_the_next_launch_alone(mode):
    for _ in range(2):
        assert fault_of("if (t == 40) __trap();", mode).kind == "trap"
        out = torch.zeros(64, dtype=torch.int32)
        with cpu.mode(mode):
            launch(kernel("__syncthreads(); out[t] = t * n;"), 1, 64, (out, i32(3)))
        assert out.tolist() == [3 * t for t in range(64)]


@pytest.mark.parametrize(
    "code, kind, line, thread",
    [
        ("if (t == 40) __trap();", "trap", 4, 40),
        ("assert(t != 33);", "assertion failed", 4, 33),
        ("\nif (t == 7) *(int*)(n + 16l) = 1;", "illegal address", 5, 7),
        ("if (t == 5) out[t] = 5 / n;", "integer division by zero", 4, 5),
        ("\nif (t < 32) __syncthreads(); else\n__syncthreads();", "divergent barrier", 6, 32),
        ("if (t < 8) __shfl_sync(0xff00, t, 0);", "wrong mask", 4, 0),
        ("__syncwarp(t % 32 < 16 ? 0x1ffff : 0xffff8000);", "wrong mask", 4, 0),
        ("if (t < 3) __syncwarp(); else\n__any_sync(~0u, 1);", "absent lanes", 4, 0),
    ],
)
def test_faults_say_what_where_and_who(mode, code, kind, line, thread):
    fault = fault_of(code, mode)
    assert (fault.kind, fault.kernel, fault.line) == (kind, "kernel", line)
    assert fault.thread == (thread, 0, 0) and fault.block == (0, 0, 0)
    assert f"kernel at inline.cu:{line} (block (0, 0, 0), thread ({thread}, 0, 0))" in str(fault)


def test_unknown_settings_are_refused(monkeypatch):
    for settings in (cpu.mode("quick"), cpu.mode("fast", order="sideways"), cpu.shared_memory("clean")):
        with pytest.raises(ValueError, match="expected one of"), settings:
            pass
    monkeypatch.setenv("KERNEL_MODE", "quick")
    with pytest.raises(ValueError, match="KERNEL_MODE is 'quick', expected one of fast, checked, msan, tsan"):
        launch(kernel(""), 1, 1, (None, i32(0)))


def test_the_environment_sets_the_default_mode(monkeypatch):
    monkeypatch.setenv("KERNEL_MODE", "checked")
    x, out = torch.zeros(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with pytest.raises(cpu.KernelFault, match="0 bytes past the end of argument 0"):
        launch(kernel("out[0] = x[4];", "const int* x, int* out"), 1, 1, (x, out))


# ---- in process ----------------------------------------------------------------------------------------


@pytest.fixture
def ctrl_c():
    """Python's own handler of SIGINT, which a process lacks that a shell started in the background."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


def test_signal_handlers_of_the_process_are_put_back(ctrl_c):
    before = [signal.getsignal(number) for number in (signal.SIGSEGV, signal.SIGINT, signal.SIGABRT)]
    fault_of("*(volatile int*)16 = 1;")
    assert before == [signal.getsignal(number) for number in (signal.SIGSEGV, signal.SIGINT, signal.SIGABRT)]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_kernel_that_never_ends_can_be_interrupted():
    program = """
import numpy as np
from helpers import compile_cuda, launch
spin = compile_cuda('\\nextern "C" __global__ void spin(int n) { volatile int* p = &n; while (*p) {} }', device="cpu")
function = spin.get_function("spin")
print("ready", flush=True)
try:
    launch(function, 1, 1, (np.int32(1),))
except KeyboardInterrupt as stop:
    print(stop)
"""
    assert interrupted(program) == "spin was interrupted at inline.cu:2 (block (0, 0, 0), thread (0, 0, 0))\n"


def test_a_thread_that_overflows_its_stack_is_reported():
    source = """
__device__ int deep(volatile int* x, int n) {
  volatile int local[64];
  local[n % 64] = n;
  return n ? deep(local, n - 1) + x[0] : 0;
}
extern "C" __global__ void kernel(int* out, int n) { out[0] = deep(out, n); }
"""
    out = torch.zeros(1, dtype=torch.int32)
    function = compile_cuda(source, device="cpu").get_function("kernel")
    launch(function, 1, 1, (out, i32(20)))
    with pytest.raises(cpu.KernelFault, match="stack overflow .*640 KiB are full"):
        launch(function, 1, 1, (out, i32(100000)))


# ---- in a child ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where, words", [(8, "0 bytes past the end"), (-1, "4 bytes before the start")])
def test_reads_beside_an_array_name_it(where, words):
    """A neighbour in memory must not hide it: the two arrays lie side by side in one storage here."""
    both = torch.zeros(16, dtype=torch.int32)
    code = f"out[t] = x[{where}];"
    with cpu.mode("checked"), pytest.raises(cpu.KernelFault) as caught:
        launch(kernel(code, "const int* x, int* out"), 1, 1, (both[:8], both[8:]))
    assert caught.value.kind == "out of bounds" and caught.value.argument == "x" and caught.value.line == 4
    assert words in str(caught.value) and "AddressSanitizer" in caught.value.report


def test_a_wild_index_never_lands_in_another_array():
    x, out = torch.zeros(1 << 20), torch.zeros(1 << 20)
    index = torch.tensor([-875836469], dtype=torch.int32)
    with cpu.mode("checked"), pytest.raises(cpu.KernelFault) as caught:
        launch(kernel("out[0] = x[i[0]];", "const float* x, float* out, const int* i"), 1, 1, (x, out, index))
    assert caught.value.kind in ("out of bounds", "illegal address") and caught.value.line == 4


def test_alignment_is_what_the_caller_gave():
    base = torch.arange(64, dtype=torch.int32)
    out = torch.zeros(4, dtype=torch.int32)
    read = kernel("if (t == 0) *(int4*)out = *(const int4*)x;", "const int* x, int* out")
    offset = -(base.data_ptr() // 4) % 4
    with cpu.mode("checked"):
        launch(read, 1, 1, (base[offset:], out))
        assert out.tolist() == [offset, offset + 1, offset + 2, offset + 3]
        with pytest.raises(cpu.KernelFault) as caught:
            launch(read, 1, 1, (base[offset + 1 :], out))
    assert caught.value.kind == "misaligned address"


def test_inputs_are_not_copied_back(child_mode):
    """What a kernel may only read can't be changed by a launch, not even by the copy."""
    x, out = torch.ones(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with cpu.mode(child_mode):
        launch(kernel("out[t] = x[t]; ((int*)x)[t] = 9;", "const int* x, int* out"), 1, 4, (x, out))
    assert x.tolist() == out.tolist() == [1, 1, 1, 1]


def test_msan_names_the_output_byte_and_the_declaration():
    if reason := cpu.missing_modes().get("msan"):
        pytest.skip(f"mode msan needs {reason}")
    out = torch.zeros(16, dtype=torch.int32)
    code = "__shared__ int tile[16];\nif (t < 9) tile[t] = t;\n__syncthreads();\nout[t] = tile[t];"
    with cpu.mode("msan"), pytest.raises(cpu.KernelFault) as caught:
        launch(kernel(code), 1, 16, (out, i32(0)))
    fault = caught.value
    assert (fault.kind, fault.argument, fault.line) == ("uninitialised output", "out", 7)
    assert "byte 36 of argument 0 (out) was never initialised" in str(fault) and "declared at line 4" in str(fault)


def test_marks_last_until_every_byte_is_written():
    if reason := cpu.missing_modes().get("msan"):
        pytest.skip(f"mode msan needs {reason}")
    out, copy = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    cpu.mark_uninitialised(out)
    write, read = kernel("if (t < n) out[t] = t;"), kernel("if (out[t] == 3) copy[t] = 1;", "const int* out, int* copy")
    with cpu.mode("msan"):
        with pytest.raises(cpu.KernelFault, match=r"byte 20 of argument 0 \(out\) was never initialised"):
            launch(write, 1, 8, (out, i32(5)))
        with pytest.raises(cpu.KernelFault, match="uninitialised value"):
            launch(read, 1, 8, (out, copy))
        launch(write, 1, 8, (out, i32(8)))
        launch(read, 1, 8, (out, copy))
    assert copy.tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="strides"):
        cpu.mark_uninitialised(torch.zeros(4, 4)[:, :2])


def test_tsan_knows_barriers_atomics_and_blocks():
    """Ordered by a barrier: no race. Two blocks at one address: a race, though they run one after the other."""
    if reason := cpu.missing_modes().get("tsan"):
        pytest.skip(f"mode tsan needs {reason}")
    out = torch.zeros(64, dtype=torch.int32)
    with cpu.mode("tsan"):
        launch(kernel("out[t] = t; __syncthreads(); atomicAdd(&out[(t + 1) % 64], 1);"), 1, 64, (out, i32(0)))
        assert out.tolist() == [t + 1 for t in range(64)]
        with pytest.raises(cpu.KernelFault) as caught:
            launch(kernel("if (t == 0) out[0] += 1;"), 2, 32, (out, i32(0)))
        assert caught.value.kind == "data race" and caught.value.line == 4 and caught.value.block == (1, 0, 0)
        # A ballot exchanges values and orders no memory; __syncwarp does.
        with pytest.raises(cpu.KernelFault, match="data race"):
            launch(kernel("out[t] = t; __ballot_sync(~0u, 1); out[t ^ 1] += 1;"), 1, 32, (out, i32(0)))
        # The two halves meet apart, so they aren't ordered with each other.
        with pytest.raises(cpu.KernelFault, match="data race"):
            halves = "out[t] = t; __syncwarp(t < 16 ? 0xffff : 0xffff0000); out[t ^ 16] += 1;"
            launch(kernel(halves), 1, 32, (out, i32(0)))


def test_a_hanging_child_is_stopped_and_leaves_nothing(child_mode, monkeypatch, tmp_path):
    monkeypatch.setenv("KERNEL_TIMEOUT", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    start = time.perf_counter()
    fault = fault_of("volatile int* p = out;\nwhile (t == 3 && *p == 0) {}", child_mode)
    assert fault.kind == "timeout" and "1 s" in str(fault) and time.perf_counter() - start < 10
    if child_mode != "tsan":  # which holds signals back
        assert fault.thread == (3, 0, 0)
    assert list(tmp_path.iterdir()) == []
    assert not any(str(cache_folder()).encode() in command for _, command in children_of(os.getpid()))


def children_of(process):
    """(id, command line) of each process that this one has started and that still runs."""
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(Path(stat).read_text().rpartition(")")[2].split()[1]) == process:
                yield int(Path(stat).parent.name), Path(stat).with_name("cmdline").read_bytes()


def test_a_child_that_dies_by_a_signal_says_so():
    source = '\nextern "C" int raise(int);\nextern "C" __global__ void kernel() { raise(9); }\n'
    module = cpu.HostModule(cpu.Source("inline.cu", source, None), (), ())  # no GPU has raise()
    with cpu.mode("checked"), pytest.raises(cpu.KernelFault, match="status -9") as caught:
        launch(module.get_function("kernel"), 1, 1, ())
    assert caught.value.kind == "killed"


def test_prints_of_a_child_arrive(child_mode, capsys):
    with cpu.mode(child_mode):
        launch(kernel('if (t == 2) printf("thread %d of %d\\n", t, blockDim.x);', "int* out"), 1, 4, (None,))
    assert capsys.readouterr().out == "thread 2 of 4\n"


LAUNCH_FOR_EVER = """
import signal
import numpy as np
from helpers import compile_cuda, cpu, launch
signal.signal(signal.SIGINT, signal.default_int_handler)
spin = compile_cuda('\\nextern "C" __global__ void spin(int n) { volatile int* p = &n; while (*p) {} }', device="cpu")
with cpu.mode("MODE"):
    launch(spin.get_function("spin"), 1, 1, (np.int32(1),))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an orphan ends at KERNEL_TIMEOUT")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_child_ends_with_its_parent(child_mode, number):
    parent = subprocess.Popen(
        [sys.executable, "-c", LAUNCH_FOR_EVER.replace("MODE", child_mode)],
        env=os.environ | {"KERNEL_TIMEOUT": "600"}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    cache = str(cache_folder()).encode()

    def runner():
        """The id of the program that runs the launch. Compilers have other names."""
        return next((child for child, command in children_of(parent.pid) if command.startswith(cache)), None)

    wait_until(runner, 120)
    child = runner()
    parent.send_signal(number)
    assert parent.wait(60) == -number
    wait_until(lambda: not running(child), 20)


def test_prints_without_end_are_cut(child_mode, monkeypatch, capsys):
    """They cost neither this process's memory nor the notebook's, which shows all that arrives here."""
    monkeypatch.setenv("KERNEL_TIMEOUT", "3")
    fault = fault_of('for (int i = 0; t == 0; ++i) printf("%09d\\n", i);', child_mode)
    assert fault.kind == "timeout"
    said = capsys.readouterr().out
    assert said.startswith("000000000\n000000001\n") and len(said) < 2 * KEPT + 200
    assert int(said.partition(" bytes cut")[0].rpartition(" ")[2]) > 2 * KEPT


def test_a_missing_tool_is_named_with_its_package(monkeypatch):
    from helpers.cpu import compilers

    monkeypatch.setattr(compilers, "_clang", lambda: None)
    compilers.toolchain.cache_clear()
    try:
        assert "clang-19 libclang-rt-19-dev" in cpu.missing_modes().get("msan")
        with cpu.mode("msan"), pytest.raises(RuntimeError, match="mode 'msan' needs clang .*apt-get install"):
            launch(kernel("out[0] = 12345;"), 1, 1, (torch.zeros(1, dtype=torch.int32), i32(0)))
    finally:
        compilers.toolchain.cache_clear()
