"""What compiles kernels for the CPU, and where they are kept: the cache, compilers that don't answer, odd folders."""

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers import cpu
from helpers.cpu import build, compilers
from helpers.cpu.source import Source

pytestmark = pytest.mark.no_gpu

# ---- the cache -------------------------------------------------------------------------------------------


def test_two_processes_can_fill_one_cache(tmp_path):
    program = """
import torch
from helpers import compile_cuda, launch
out = torch.zeros(1, dtype=torch.int32)
module = compile_cuda('\\nextern "C" __global__ void kernel(int* out) { out[0] = 41; }', device="cpu")
launch(module.get_function("kernel"), 1, 1, (out,))
print(out.item())
"""
    environment = {**os.environ, "KERNEL_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == [b"41\n", b"41\n"]
    kept = sorted(path.suffix for path in tmp_path.iterdir())  # runtime, kernel, NVRTC's answer where it was asked
    assert [suffix for suffix in kept if suffix != ".nvrtc"] == [".so", ".so"] and len(kept) <= 3


def kernel_that_gives(number):
    return Source("inline.cu", f'extern "C" __global__ void kernel(int* out) {{ out[0] = {number}; }}', None)


def build_kernel(number, mode="fast"):
    return build.build_kernels(kernel_that_gives(number), ("kernel",), (), mode)


LOADS = """
import ctypes, sys
from helpers.cpu import build
from helpers.cpu.launch import run
from helpers.cpu.source import Source
source = Source("inline.cu", sys.argv[1], None)
out = ctypes.c_int()
run(build.build_kernels(source, ("kernel",), (), "fast"), "kernel", (1, 1, 1), (1, 1, 1), 0,
    [ctypes.c_void_p(ctypes.addressof(out))])
print(out.value)
"""


@pytest.mark.parametrize("harm", ("truncated", "emptied", "another kernel", "another mode", "another's name", "a bit"))
@pytest.mark.parametrize("victim", ("kernel", "runtime"))
def test_a_damaged_file_in_the_cache_is_built_again(harm, victim, tmp_path, monkeypatch):
    """A truncated library ended the process by SIGBUS, so it is loaded in another process here."""
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path))
    path = build_kernel(41) if victim == "kernel" else build.build_runtime("fast")
    good = path.read_bytes()
    match harm:
        case "truncated":
            os.truncate(path, 5000)
        case "emptied":
            os.truncate(path, 0)
        case "another kernel":
            shutil.copy(build_kernel(42), path)
        case "another mode":
            shutil.copy(build_kernel(41, "checked"), path)
        case "another's name":  # whole, but made from something else
            other = build_kernel(42)
            path.unlink()
            path = other.rename(tmp_path / f"{path.name[:32]}{other.name[32:]}")
        case "a bit":
            path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    if harm == "truncated":
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", LOADS, kernel_that_gives(41).text]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "41\n", "")
    mended = build_kernel(41) if victim == "kernel" else build.build_runtime("fast")
    assert mended.read_bytes() == good and (mended == path or not path.exists())


def test_a_whole_file_in_the_cache_is_not_built_again(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path))
    first = build_kernel(41)
    monkeypatch.setattr(build, "_build", None)
    assert build_kernel(41) == first


def test_what_killed_builds_left_is_removed_once_it_is_old(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path))
    for name, age in (("build-old", 3700), ("build-new", 3500), ("solved", 9999)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "unit.o").touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    build_kernel(41)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["build-new", "solved"]


def test_an_interrupted_build_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_kernel(41)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "kind", ("a file", "in a file", "no folder can be made", "full", "full for the compiler", "no home")
)
def test_a_cache_that_cannot_be_written_says_which_variable_to_set(kind, tmp_path, monkeypatch):
    words = {"a file": "File exists", "in a file": "Not a directory", "no folder can be made": "No such file",
             "no home": "home directory"}.get(kind, "No space left on device")  # fmt: skip
    (tmp_path / "file").touch()
    folder = {"a file": tmp_path / "file", "in a file": tmp_path / "file" / "cache", "no folder can be made": "/proc/a"}
    monkeypatch.setenv("KERNEL_CACHE", str(folder.get(kind, tmp_path)))
    if kind == "full":
        monkeypatch.setattr(build.os, "replace", Raises(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    if kind == "full for the compiler":
        said = "fatal error: error writing to unit.o: No space left on device"
        monkeypatch.setattr(build, "run", lambda command, *_, **__: subprocess.CompletedProcess(command, 1, "", said))
    if kind == "no home":
        monkeypatch.delenv("KERNEL_CACHE")
        monkeypatch.delenv("HOME")
        monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # KeyError, as for an unknown user
    with pytest.raises(cpu.CacheError, match=rf"{words}.*Set the environment variable KERNEL_CACHE to a folder"):
        build_kernel(43)
    assert not list(tmp_path.glob("build-*"))


class Raises:
    def __init__(self, error):
        self.error = error

    def __call__(self, *_, **__):
        raise self.error


def test_a_relative_cache_is_found_from_any_folder(tmp_path, monkeypatch):
    """Wrong: "." gives the loader a bare name, which it looks for in its own folders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_CACHE", ".")
    assert build_kernel(41).parent == tmp_path


# ---- compilers that don't answer -------------------------------------------------------------------------


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A function that puts a program of a name and a shell script first on PATH; compilers are looked for anew."""
    caches = (compilers.toolchain, compilers._asked, compilers._works)
    for cache in caches:
        cache.cache_clear()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compilers, "ANSWER_SECONDS", 5)

    def put(name, script):
        path = tmp_path / "bin" / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    yield put
    for cache in caches:
        cache.cache_clear()


REAL = shutil.which("c++") or shutil.which("clang++")
STUBS = {
    "fails": ("#!/bin/sh\necho 'no developer tools were found' >&2\nexit 1\n", "ended with 1: no developer tools were"),
    "fails in silence": ("#!/bin/sh\nexit 72\n", "ended with 72: no message"),
    "garbage": ("#!/bin/sh\nprintf '\\377\\376\\000garbage'\n", "names no version, it says"),
    "silent": ("#!/bin/sh\n", "names no version, it says 'nothing'"),
    "hangs": ("#!/bin/sh\nsleep 1000\n", "did not end within 1 s"),
    "no program": ("\x7fELF", "can't start: Exec format error"),
}


@pytest.mark.parametrize("stub", STUBS)
def test_the_next_compiler_builds_when_the_first_does_not_answer(stub, on_path):
    on_path("g++", STUBS[stub][0])
    assert compilers.toolchain("fast").command == (REAL,)
    assert build_kernel(44).is_file()


def test_a_compiler_that_hangs_in_a_trial_of_a_sanitizer_has_none(on_path, monkeypatch):
    on_path("g++", '#!/bin/sh\n[ "$1" = --version ] && echo "g++ 99.1" && exit\nsleep 1000\n')
    monkeypatch.setattr(compilers, "ANSWER_SECONDS", 1)
    assert compilers.toolchain("checked").startswith("a working -fsanitize=address,undefined of ")


@pytest.mark.parametrize("stub", STUBS)
def test_where_no_compiler_answers_each_says_why(stub, on_path, monkeypatch):
    script, words = STUBS[stub]
    if stub == "hangs":
        monkeypatch.setattr(compilers, "ANSWER_SECONDS", 1)
    found = {name: on_path(name, script) for name in ("g++", "c++", "clang++", "clang++-19")}
    for version in (16, 17, 18, 20):
        on_path(f"clang++-{version}", script)
    monkeypatch.setattr(compilers, "_zig", lambda: None)
    reasons = cpu.missing_modes()
    assert all(reasons.values())
    for path in found.values():
        assert f"`{path} --version` {words}" in reasons["fast"]
    with pytest.raises(
        RuntimeError, match="mode 'fast' needs a C\\+\\+ compiler: apt-get install g\\+\\+.*--version` "
    ):
        build_kernel(44)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", r"ended with 3 and no message"),
        ("sleep 1000", "did not end within 2 s"),
        ("exit 0", "ended with 0, but made no file"),
        ("printf '\\377 is wrong' >&2; exit 1", "\ufffd is wrong"),
    ],
)
def test_a_compiler_that_answers_and_then_fails_is_a_compile_error(script, words, on_path, monkeypatch):
    on_path("g++", f'#!/bin/sh\n[ "$1" = --version ] && echo "g++ 99.1" && exit\n{script}\n')
    monkeypatch.setattr(build, "COMPILE_SECONDS", 2)
    with pytest.raises(cpu.CompileError, match=words):
        build_kernel(45)


def test_what_hangs_is_ended_with_its_children(on_path, tmp_path):
    """The child of a hanging script holds its pipes: to wait for them is to wait for ever."""
    script = on_path("hangs", f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/child\nwait\n")
    with pytest.raises(subprocess.TimeoutExpired):
        compilers.run([str(script)], 1)
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child still runs")


# ---- folders with any name -------------------------------------------------------------------------------

ANY_NAME = """
import torch
from helpers import compile_cuda, compile_to_cubin, cpu, launch
from helpers.kernel import KERNELS
from helpers import store_cache

for mode in ("fast", "checked"):
    with cpu.mode(mode):
        k, cache = torch.arange(256.0).view(2, 128), torch.zeros(4, 128)
        store_cache(k, k.clone(), cache, torch.zeros(4, 128), torch.tensor([2, 1]))
        assert torch.equal(cache[[2, 1]], k) and not cache[[0, 3]].any()
KERNELS.joinpath("wrong.cu").write_text('\\nextern "C" __global__ void kernel(int* x) {\\n  x[0] = mistake;\\n}')
for build in (lambda: compile_cuda("wrong.cu", device="cpu"), lambda: compile_to_cubin("wrong.cu")):
    try:
        build()
    except cpu.CompileError as error:
        print(next(line for line in str(error).splitlines() if "mistake" in line))
KERNELS.joinpath("outside.cu").write_text('\\nextern "C" __global__ void kernel(int* x) {\\n  x[7] = 1;\\n}')
with cpu.mode("checked"):
    try:
        kernel = compile_cuda("outside.cu", device="cpu").get_function("kernel")
        launch(kernel, 1, 1, (torch.zeros(7, dtype=torch.int32),))
    except cpu.KernelFault as error:
        print(error.kind, error.line)
"""


def test_a_repository_in_a_folder_of_any_name_works(tmp_path):
    """Paths stand in #line, in include folders and in what compilers and sanitizers report."""
    place = tmp_path / r"""a "quoted" $HOME `id` & 'x' #hash %s ünïcode 雪 back\slash"""
    place.mkdir()
    for folder in ("helpers", "kernels"):
        shutil.copytree(
            Path(build.__file__).parents[2] / folder, place / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    environment = {**os.environ, "PYTHONPATH": str(place), "KERNEL_CACHE": str(place / "cache")}
    done = subprocess.run([sys.executable, "-c", ANY_NAME], env=environment, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    host, nvrtc, fault = done.stdout.splitlines()
    assert "wrong.cu:3:" in host and "wrong.cu(3)" in nvrtc and fault == "out of bounds 3"
