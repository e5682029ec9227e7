"""What is rewritten of a CUDA source before a host compiler reads it, and what NVRTC's answer does."""

import importlib.util
import os

import pytest
import torch

from helpers import compile_cuda, cpu, kernel, launch
from helpers.cpu import nvrtc_check
from helpers.cpu.refusals import explain
from helpers.cpu.scan import blank_comments, kernels, place, scopes
from helpers.cpu.shared_declarations import rewrite_shared
from helpers.cpu.source import Source, parameter_names, plain_kernels, to_cpp

needs_nvrtc = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs NVRTC, which CuPy brings")


# ---- scanning ------------------------------------------------------------------------------------------


def test_comments_and_literals_are_blanked_in_place():
    text = "a /* { \n } */ b // {\n\"{;\" '{' '\\'' R\"x({)y\" )x\" 1'000 c"
    clean = blank_comments(text)
    assert len(clean) == len(text) and clean.count("\n") == 2
    assert clean.split() == ["a", "b", "1'000", "c"]


def test_scopes_are_told_apart():
    text = """
namespace a::b { namespace {
struct alignas(16) __align__(8) Pair { int x; int sum() const { return x; } };
int table[] = {1, 2};
} }
extern "C" {
__global__ void __launch_bounds__(64) k(int* x) { if (x) { x[0] = 1; } }
}
template <class T> struct Box { T x; Box() : x(0) {} };
enum class Kind { One };
auto f(int x) -> int { return x; }
bool operator==(Kind, Kind) { return true; }
"""
    assert [scope.kind for scope in scopes(blank_comments(text))] == [
        *("function", "class", "other", "namespace", "namespace"),
        *("function", 'extern "C"', "function", "class", "class", "function", "function"),
    ]


def test_branches_of_the_preprocessor_may_open_the_same_brace():
    text = "#ifdef A\nvoid f(int x) {\n#else\nvoid f(float x) {\n#endif\n  x = 1;\n}\nvoid g() {}\n"
    assert [scope.kind for scope in scopes(text)] == ["function", "function"]
    assert scopes("void f() {") == scopes("}") == []


def test_kernels_are_found_with_all_that_may_stand_around_their_names():
    text = """
#define CLUSTER(n) __cluster_dims__(n)
template <typename T = float, int N = 4> __global__ void __launch_bounds__(128, 2) CLUSTER(N)
copy(const T* x, int n = f(3));
extern "C" __global__ void plain(int x[4]) {}
extern "C" { static __global__ void also_plain() {} }
// __global__ void ghost() {}
namespace n { __global__ __launch_bounds__(64) void inner(float (*f)(int, int)) {} }
"""
    assert [(found.name, found.line, found.is_template, found.is_plain) for found in kernels(text)] == [
        ("copy", 3, True, False),
        ("plain", 5, False, True),
        ("also_plain", 6, False, True),
        ("inner", 8, False, False),
    ]
    assert plain_kernels(text) == ["plain", "also_plain"]
    assert parameter_names(text, "copy<int>") == ["x", "n"] and parameter_names(text, "plain") == ["x"]


def test_places_follow_line_directives():
    text = 'one\n#line 1 "other.cuh"\ntwo\nthree\n#line 3 "main.cu"\nfour'
    found = [place(text, text.index(word), "main.cu") for word in ("one", "two", "three", "four")]
    assert found == ["main.cu:1", "other.cuh:1", "other.cuh:2", "main.cu:3"]


# ---- shared declarations -------------------------------------------------------------------------------


def test_only_functions_that_mean_the_file_s_variable_get_it():
    text = """__shared__ int tile[4];
int uses() { return tile[0]; }
int takes(int* tile) { return tile[0]; }
int declares() { __shared__ int tile[2]; return tile[0]; }
int nothing() { return 0; }
"""
    lines = rewrite_shared(text, "x.cu").splitlines()
    assert ["tile__place()" in line for line in lines] == [True, True, False, False, False]
    assert len(lines) == 5


def test_a_declaration_keeps_its_lines_and_its_alignment():
    text = "void f() {\n  static __shared__ __align__(32) float a[4],\n      *b;\n  int c;\n}\n"
    rewritten = rewrite_shared(text, "x.cu")
    assert rewritten.count("\n") == text.count("\n")
    assert "typedef x" not in rewritten and "typedef a__base  a__type[4] __align__(32);" in rewritten
    assert "typedef a__base * b__type __align__(32);" in rewritten


@pytest.mark.parametrize("declaration", ["__shared__ int x = 3", "__shared__ int (*f)(int)", "__shared__ int"])
def test_what_is_too_involved_is_refused_with_its_place(declaration):
    with pytest.raises(cpu.CompileError, match=r"x\.cu:2: this __shared__ declaration is too involved"):
        rewrite_shared(f"void f() {{\n{declaration};\n}}", "x.cu")


def test_asm_is_known_by_all_its_names():
    source = Source("x.cu", 'void f() { __asm__("a"); __asm volatile("b"); asm("c"); }  // __asm__\n', None)
    first = to_cpp(source, ()).splitlines()[1]
    assert first == 'void f() { asm("a"); asm volatile("b"); asm("c"); }  // __asm__'


# ---- messages of both compilers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, words",
    [
        (
            "x.cu:2:10: fatal error: cub/cub.cuh: No such file or directory",
            "x.cu:2: error: the CPU build lacks <cub/cub.cuh>",
        ),
        ("x.cu:2:10: fatal error: 'mma.h' file not found", "x.cu:2: error: the CPU build lacks <mma.h>"),
        ("x.cu:1:3: error: use of deleted function ‘float atomicMax(float*, float)’", "CUDA has no atomicMax"),
        ("x.cu:1:3: error: call to deleted function 'atomicMin'", "CUDA has no atomicMin"),
        ("x.cu:1:9: error: expected primary-expression before ‘<’ token", "x.cu:1: error: <<<...>>> is host code"),
        ("x.cu:9:1: error: use of undeclared identifier 'cudaMalloc'", "x.cu:9: error: cudaMalloc is host code"),
        ("x.cu:9:1: error: ‘cudaMemcpy’ was not declared in this scope", "x.cu:9: error: cudaMemcpy is host code"),
    ],
)
def test_known_messages_are_led_by_plain_words(message, words):
    explained = explain(message, Source("x.cu", "kernel<<<1, 2>>>(x);\n", None))
    assert words in explained.splitlines()[0] and explained.endswith(message)


@pytest.mark.parametrize(
    "message", ["x.cu:2:10: fatal error: mine.h: No such file or directory", "x.cu:2:1: error: ‘y’ was not declared"]
)
def test_other_messages_are_left_alone(message):
    assert explain(message, Source("x.cu", "// kernel<<<1, 2>>>\n", None)) == message


# ---- NVRTC ---------------------------------------------------------------------------------------------

GOOD = '\nextern "C" __global__ void kernel(float* x) { *x = 2; }'


@needs_nvrtc
def test_nvrtc_is_asked_once_for_all_processes(tmp_path, monkeypatch):
    """Its answer is kept on disk; another source, another macro, another NVRTC ask again."""
    monkeypatch.setenv("KERNEL_CACHE", str(tmp_path))
    asked = []
    ask = nvrtc_check._ask
    monkeypatch.setattr(nvrtc_check, "_ask", lambda *words: asked.append(words) or ask(*words))
    for text, option in [
        (GOOD, "-DA=1"),
        (GOOD, "-DA=1"),
        (GOOD, "-DA=2"),
        (GOOD.replace("2", "INFINITY"), "-DA=1"),
    ] * 2:
        answer = nvrtc_check.refusal("x.cu", text, (), (option,))
        assert bool(answer) == ("INFINITY" in text)
    monkeypatch.setattr(nvrtc_check, "_version", lambda: "another")
    nvrtc_check.refusal("x.cu", GOOD, (), ("-DA=1",))
    assert len(asked) == 4 and len(list(tmp_path.glob("*.nvrtc"))) == 4


def test_without_cupy_the_host_compiler_alone_decides(monkeypatch):
    monkeypatch.setattr(nvrtc_check, "_version", lambda: None)
    assert nvrtc_check.refusal("x.cu", "nonsense", (), ()) is None
    kernel._compile_for_cpu.cache_clear()
    out = torch.zeros(1)
    launch(compile_cuda(GOOD.replace("2", "INFINITY"), device="cpu").get_function("kernel"), 1, 1, (out,))
    assert out.item() == float("inf")
    with pytest.raises(cpu.CompileError, match=r"inline\.cu:2.*mistake") as caught:
        compile_cuda(GOOD.replace("2", "mistake"), device="cpu")
    assert "NVRTC" not in str(caught.value)


@needs_nvrtc
def test_nvrtc_sees_the_macros_and_the_included_files(tmp_path):
    (tmp_path / "part.cuh").write_text("#pragma once\n__device__ float part() {\n  return VALUE;\n}\n")
    (tmp_path / "main.cu").write_text(f'#include "part.cuh"\n{GOOD.replace("2", "part()")}\n')
    compile_cuda(tmp_path / "main.cu", defines={"VALUE": 3}, device="cpu")
    with pytest.raises(cpu.CompileError, match=rf"refuses it:\n{tmp_path}{os.sep}part\.cuh\(3\): error.*INFINITY"):
        compile_cuda(tmp_path / "main.cu", defines={"VALUE": "INFINITY"}, device="cpu")
