"""CUDA C++ on the CPU: the language, the scheduler, shared memory, argument types."""

import numpy as np
import pytest
import torch

from helpers import compile_cuda, cpu, launch
from helpers.cpu.source import Source, inline_includes, parameter_names, plain_kernels, rewrite_shared

pytestmark = pytest.mark.no_gpu

i32 = np.int32


def run(source, grid, block, args, name="kernel", **options):
    launch(compile_cuda(source, [name], device="cpu").get_function(name), grid, block, args, **options)


def body(code, parameters="int* out"):
    """A kernel with the given parameters and body; `t` is the thread's number in its block."""
    return f"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void kernel({parameters}) {{
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  {code}
}}
"""


def results(code, threads=32, dtype=torch.int32, grid=1):
    """What `code` writes to out[0 .. threads)."""
    out = torch.full((grid * threads,), 77, dtype=dtype)
    run(body(code, {torch.int32: "int* out", torch.float32: "float* out"}[dtype]), grid, threads, (out,))
    return out.tolist()


# ---- the language --------------------------------------------------------------------------------------


def test_every_thread_of_a_3d_grid_sees_its_own_indices():
    """Wrong: x and z swapped, or one dimension dropped; the sizes differ, so that each shows."""
    out = torch.zeros(2, 3, 4, 5, 6, 7, dtype=torch.int32)
    code = """
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + t] = blockIdx.z * 100000 + blockIdx.y * 10000 + blockIdx.x * 1000
        + threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x;"""
    run(body(code), (4, 3, 2), (7, 6, 5), (out,))
    z, y, x, tz, ty, tx = np.indices(out.shape)
    assert (out.numpy() == z * 100000 + y * 10000 + x * 1000 + tz * 100 + ty * 10 + tx).all()


def test_half_and_bfloat16_round_like_torch():
    """All 65536 bit patterns to float and back, and floats on, above and below every rounding tie."""
    bits = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    for dtype, name in ((torch.float16, "__half"), (torch.bfloat16, "__nv_bfloat16")):
        given = bits.view(dtype)
        exact = given.float()
        step = torch.tensor([-0.5, -0.499, 0.0, 0.499, 0.5])
        gap = (bits.int() + 1).to(torch.uint16).view(dtype).float() - exact
        floats = torch.cat([exact, *(exact + gap * s for s in step), torch.tensor([65519.9, 65520.0, 1e30, -1e-30])])
        wide, narrow = torch.zeros(65536), torch.zeros(len(floats), dtype=dtype)
        for before, after, types in ((given, wide, (name, "float")), (floats, narrow, ("float", name))):
            n = len(before)
            code = f"int i = blockIdx.x * 1024 + t; if (i < n) out[i] = {types[1]}(x[i]);"
            parameters = f"const {types[0]}* x, {types[1]}* out, int n"
            run(body(code, parameters), -(-n // 1024), 1024, (before, after, i32(n)))
        assert torch.equal(wide.nan_to_num(-1.5), exact.nan_to_num(-1.5))
        assert torch.equal(narrow.float().nan_to_num(-1.5), floats.to(dtype).float().nan_to_num(-1.5))


def test_bit_intrinsics():
    code = """
    int v[] = {__popc(0xf0f0u), __clz(1), __clz(0), __ffs(8), __ffs(0), (int)__brev(1u) < 0, (int)__umulhi(1u << 31, 4),
               (int)__float_as_uint(1.0f), (int)(__uint_as_float(0x40000000u)), __half_as_ushort(__float2half_rn(1.0f)),
               max(3, 5), min(-1, 2), (int)(max(1.5f, 0.5f) * 2), (int)__funnelshift_l(1u << 31, 1u, 1),
               __popcll(~0ull)};
    if (t < 15) out[t] = v[t];"""
    assert results(code, 15) == [8, 31, 32, 4, 0, 1, 2, 0x3F800000, 2, 0x3C00, 5, -1, 3, 3, 64]


def test_vector_loads_move_16_bytes():
    x, out = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    code = "reinterpret_cast<uint4*>(out)[t] = reinterpret_cast<const uint4*>(x)[t];"
    run(body(code, "const int* x, int* out"), 1, 8, (x, out))
    assert out.tolist() == [*range(32), *[0] * 32]


def test_shared_memory_declarations():
    """Scalars, several in one declaration, arrays of two dimensions, structs, alignment, and dynamic memory."""
    source = """
struct Pair { int value; float weight; };
template <typename T, int N>
__global__ void kernel(T* out) {
  __shared__ T row[N], single, grid[N / 4][4];
  __shared__ alignas(16) Pair pairs[N];   // a comment; with a semicolon
  __shared__ __align__(16) unsigned char raw[64];
  extern __shared__ T dynamic[];
  int t = threadIdx.x;
  row[t] = t; grid[t / 4][t % 4] = 10 * t; pairs[t] = {100 * t, 0.5f}; dynamic[t] = 1000 * t;
  if (t == 0) single = 7;
  __syncthreads();
  int other = N - 1 - t;
  out[t] = row[other] + grid[other / 4][other % 4] + pairs[other].value + dynamic[other] + single;
  if (reinterpret_cast<unsigned long long>(raw) % 16) out[t] = -1;
}
"""
    out = torch.zeros(64, dtype=torch.int32)
    run(source, 1, 64, (out,), name="kernel<int, 64>", shared_mem=256)
    assert out.tolist() == [1111 * (63 - t) + 7 for t in range(64)]


def test_compile_errors_show_the_sources_own_line():
    with pytest.raises(cpu.CompileError, match=r"inline\.cu:3:\d+: error: .*mistake"):
        compile_cuda('\nextern "C" __global__ void kernel(int* x) {\n  x[0] = mistake;\n}', device="cpu")


def test_lines_survive_the_rewriting():
    text = "int a;\n__shared__ float x[4],\n    y;\n// __shared__ int z;\nb"
    rewritten = rewrite_shared(text, "x.cu").split("\n")
    assert len(rewritten) == 5 and rewritten[3:] == ["// __shared__ int z;", "b"]
    assert "y__slot" in rewritten[1]


def test_local_includes_are_inlined_with_their_lines(tmp_path):
    (tmp_path / "one.cuh").write_text("#pragma once\nint one;\n")
    text = '#include "one.cuh"\n#include "one.cuh"\n#include <cuda_fp16.h>\nint two;\n'
    inlined = inline_includes(Source("main.cu", text, tmp_path))
    assert inlined.count("int one;") == 1 and f'#line 1 "{tmp_path}/one.cuh"' in inlined
    assert '#line 2 "main.cu"\n' in inlined and "#include <cuda_fp16.h>" in inlined


def test_parameter_names_and_plain_kernels():
    text = """
    template <typename A, int N> __global__ void __launch_bounds__(128) copy(const A* __restrict__ x,  // [n, 4]
                                                    const long long shape[4], int n) {}
    // extern "C" __global__ void ghost(int a);
    extern "C" __global__ void plain() {}"""
    assert parameter_names(text, "copy<float, (3 > 2)>") == ["x", "shape", "n"]
    assert parameter_names(text, "plain") == parameter_names(text, "ghost") == []
    assert plain_kernels(text) == ["plain"]


# ---- warps ---------------------------------------------------------------------------------------------


def test_shuffles_follow_the_width():
    """A source outside the segment gives the lane's own value; a wrong program wraps around or crosses segments."""
    lanes = range(32)
    assert results("out[t] = __shfl_sync(~0u, t, 5);") == [5] * 32
    assert results("out[t] = __shfl_sync(~0u, t, 9, 8);") == [lane // 8 * 8 + 1 for lane in lanes]
    assert results("out[t] = __shfl_up_sync(~0u, t, 3);") == [max(lane - 3, lane if lane < 3 else 0) for lane in lanes]
    assert results("out[t] = __shfl_down_sync(~0u, t, 3, 16);") == [
        lane + 3 if lane % 16 < 13 else lane for lane in lanes
    ]
    assert results("out[t] = __shfl_xor_sync(~0u, t, 5);") == [lane ^ 5 for lane in lanes]
    assert results("out[t] = __shfl_xor_sync(~0u, (double)t, 1) + __shfl_sync(~0u, 1ll << 40, 3) / (1ll << 40);") == [
        (lane ^ 1) + 1 for lane in lanes
    ]


def test_votes_and_reductions_inside_divergent_code():
    """Each half of the warp meets on its own; a design that stops the whole warp would hang or mix them."""
    code = """
    unsigned mask = t < 12 ? 0xfffu : 0xfffff000u;
    if (t < 12) out[t] = __popc(__ballot_sync(mask, t % 2)) + 100 * __reduce_add_sync(mask, t);
    else out[t] = __any_sync(mask, t == 31) + 10 * __all_sync(mask, t > 11) + 100 * __reduce_max_sync(mask, -t);"""
    assert results(code) == [6 + 100 * 66] * 12 + [11 - 1200] * 20
    assert results("out[t] = __match_any_sync(~0u, t / 8) == 0xffu << t / 8 * 8;") == [1] * 32


def test_exited_lanes_hold_nobody_back():
    """21 of 32 lanes go on. Wrong: a barrier that counts all threads hangs, a ballot that does gives other bits."""
    code = "if (t % 3 == 0) return; __syncthreads(); __syncwarp(); out[t] = __popc(__ballot_sync(~0u, 1));"
    assert results(code) == [77 if lane % 3 == 0 else 21 for lane in range(32)]


def test_barriers_that_count():
    code = """
    int odd = __syncthreads_count(t % 2), some = __syncthreads_or(t == 40), all = __syncthreads_and(t < 70);
    out[t] = odd * 100 + some * 10 + all;"""
    assert results(code, 70) == [35 * 100 + 11] * 70


# ---- the scheduler -------------------------------------------------------------------------------------


REVERSE = body("""
  __shared__ int tile[1024];
  for (int round = 0; round < 3; ++round) {
    tile[t] = out[blockIdx.x * blockDim.x + t];
    __syncthreads();
    out[blockIdx.x * blockDim.x + t] = tile[blockDim.x - 1 - t] + __shfl_sync(~0u, round, 0);
    __syncthreads();
  }""")


@pytest.mark.parametrize("threads", [1, 31, 33, 100, 1024])
@pytest.mark.parametrize("order", cpu.ORDERS)
def test_a_right_kernel_gives_the_same_in_every_order(order, threads):
    """Also for warps with missing lanes. Wrong: a barrier that lets a thread through early."""
    out = torch.arange(3 * threads, dtype=torch.int32)
    with cpu.mode("fast", order=order, seed=5):
        run(REVERSE, 3, threads, (out,))
    want = torch.arange(3 * threads, dtype=torch.int32).view(3, threads).flip(1).flatten() + 3
    assert out.tolist() == want.tolist()


def first_come(order, seed=0):
    """The order in which 2 blocks of 64 threads came to a counter."""
    count, out = torch.zeros(1, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)
    with cpu.mode("fast", order=order, seed=seed):
        run(body("out[atomicAdd(count, 1)] = blockIdx.x * 64 + t;", "int* count, int* out"), 2, 64, (count, out))
    return out.tolist()


def test_orders_differ_and_random_is_repeatable():
    assert first_come("forward") == list(range(128))
    assert first_come("reverse") == list(range(127, -1, -1))
    assert first_come("random", 1) == first_come("random", 1) != first_come("random", 2)
    assert sorted(first_come("random", 1)) == list(range(128))


def test_atomics():
    code = """
    atomicAdd(&n[0], 2); atomicMax(&n[1], t); atomicMin(&n[2], -t); atomicOr(&n[3], 1 << t % 5); atomicExch(&n[4], 9);
    atomicCAS(&n[5], t, t + 1); atomicAdd(f, 0.5f); atomicAdd(w, 1ull << 33);
    __shared__ unsigned s;
    if (t == 0) s = 0;
    __syncthreads();
    atomicAdd(&s, 1u); atomicInc(&n[7] , 9u);
    __syncthreads();
    n[6] = s;"""
    n, f, w = torch.zeros(8, dtype=torch.int32), torch.zeros(1), torch.zeros(1, dtype=torch.int64)
    code = code.replace("atomicInc(&n[7] , 9u)", "atomicInc(reinterpret_cast<unsigned*>(&n[7]), 9u)")
    run(body(code, "int* n, float* f, unsigned long long* w"), 1, 64, (n, f, w))
    assert n.tolist() == [128, 63, -63, 31, 9, 64, 64, 64 % 10] and f.item() == 32 and w.item() == 64 << 33


# ---- shared memory -------------------------------------------------------------------------------------

READ = body("__shared__ int tile[64]; out[blockIdx.x * 64 + t] = tile[t]; tile[t] = 5 + blockIdx.x;")


@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_shared_memory_is_poisoned_or_kept(mode):
    """Poisoned: every block finds 0xCB. Kept: the block before, also one of another kernel, left its data."""
    out = torch.zeros(128, dtype=torch.int32)
    with cpu.mode(mode):
        run(READ, 2, 64, (out,))
        assert out.view(torch.uint8).eq(0xCB).all()
        with cpu.shared_memory("keep"):
            run(body("extern __shared__ int words[]; words[t] = 1000 + t;", ""), 1, 64, (), shared_mem=1024)
            run(READ, 2, 64, (out,))
    assert out.tolist() == [1000 + t for t in range(64)] + [5] * 64


# ---- arguments -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argument, message",
    [
        (np.int64(1), r"argument 1 \(n\) is an integer of 4 bytes, got int64 of 8 bytes"),
        (np.float32(1), r"argument 1 \(n\) is an integer of 4 bytes, got float32"),
        (torch.zeros(1), r"argument 1 \(n\) is an integer of 4 bytes, got Tensor"),
        (None, r"argument 1 \(n\) is an integer"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_runs(argument, message):
    out = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(TypeError, match=message):
        run(body("out[0] = n;", "int* out, int n"), 1, 1, (out, argument))
    assert out.item() == 0


def test_other_bad_launches():
    out = torch.zeros(1, dtype=torch.int32)
    kernel = body("out[0] = 1;")
    with pytest.raises(TypeError, match="takes 1 arguments, 2 given"):
        run(kernel, 1, 1, (out, out))
    with pytest.raises(TypeError, match=r"argument 0 \(out\) is a pointer"):
        run(kernel, 1, 1, (i32(1),))
    with pytest.raises(ValueError, match="grid is"):
        run(kernel, 0, 1, (out,))
    with pytest.raises(ValueError, match="2048 threads"):
        run(kernel, 1, (512, 4), (out,))
    with pytest.raises(ValueError, match="shared_mem is 300000"):
        run(kernel, 1, 1, (out,), shared_mem=300000)
    with pytest.raises(ValueError, match="not among the name expressions"):
        compile_cuda(kernel, device="cpu").get_function("other")
    with pytest.raises(ValueError, match='no extern "C" kernel'):
        compile_cuda("\n__global__ void kernel() {}", device="cpu")
    assert out.item() == 0


def test_scalars_of_every_type_and_null_pointers_arrive():
    parameters = "double* out, bool b, signed char c, short s, long long l, float f, double d, const int* nothing"
    out = torch.zeros(7, dtype=torch.float64)
    values = (np.bool_(True), np.int8(-2), np.int16(-300), np.int64(2**40), np.float32(0.5), np.float64(1e300), None)
    code = """
    double v[] = {double(b), c, s, double(l), f, d, double(nothing == nullptr)};
    for (int i = 0; i < 7; ++i) out[i] = v[i];"""
    run(body(code, parameters), 1, 1, (out, *values))
    assert out.tolist() == [1, -2, -300, 2**40, 0.5, 1e300, 1]


# ---- several builds ------------------------------------------------------------------------------------


def test_two_builds_of_one_kernel_do_not_share_their_state():
    """Same kernel name, other defines: static slots and templates of one build must not serve the other."""
    source = """
template <int N> __global__ void kernel(int* out) {
  __shared__ int s[SIZE];
  s[SIZE - 1] = N;
  out[0] = s[SIZE - 1] + SIZE;
}"""
    out = torch.zeros(1, dtype=torch.int32)
    for size in (3, 4000, 3):
        module = compile_cuda(source, ["kernel<1>"], device="cpu", defines={"SIZE": size})
        launch(module.get_function("kernel<1>"), 1, 1, (out,))
        assert out.item() == size + 1
