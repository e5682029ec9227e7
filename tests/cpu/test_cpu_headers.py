"""CUDA's headers on the CPU: what the table of border/ can't show with one launch."""

import re

import numpy as np
import pytest
import torch

from helpers import compile_cuda, cpu, kernel, launch

i32 = np.int32


def run(source, name, grid, block, args):
    launch(compile_cuda(source, [name], device="cpu").get_function(name), grid, block, args)


def test_math_constants_are_those_of_cudas_own_header():
    """Each macro of ours has the value that CUDA's file gives it."""
    folders = kernel.cuda_include_dirs()
    if not folders:
        pytest.skip("CUDA's headers aren't installed")
    pattern = re.compile(r"^#define (CUDART_\w+)[ \t]+(.+?)\s*$", re.MULTILINE)
    theirs = dict(pattern.findall(open(f"{folders[0]}/math_constants.h").read()))
    ours = dict(pattern.findall((cpu.build.INCLUDE / "math_constants.h").read_text()))
    assert len(ours) > 45

    def value(text):
        text = re.sub(r"(?i)(0x[0-9a-f]+)u?l*", r"\1", text)
        called = re.fullmatch(r"__(\w+?)_as_\w+\((0x\w+)\)", text)
        if called:
            return int(called[2], 16)
        return np.float32(text[:-1]) if text[-1] in "fF" else np.float64(text)

    for name, text in ours.items():
        assert value(text) == value(theirs[name]), name


def test_every_half_times_and_plus_rounds_once():
    """__hfma against exact arithmetic, where a float in between would round twice: just beside the middle of two."""
    cases = torch.tensor(
        [[2048.0, 1.0, 2.0**-14], [1.0, 1.0 + 2**-10, 2.0**-24], [3.0, 683.0, 0.5], [-2.0, 1024.5, 2**-24]]
    )
    a, b, c = cases.half().T.contiguous()
    for kind, dtype in (("__half", torch.float16), ("__nv_bfloat16", torch.bfloat16)):
        x, y, z = (part.to(dtype) for part in (a, b, c))
        out = torch.zeros(4, dtype=dtype)
        source = f"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void kernel(const {kind}* x, const {kind}* y, const {kind}* z, {kind}* out) {{
  int i = threadIdx.x;
  out[i] = __hfma(x[i], y[i], z[i]);
}}"""
        run(source, "kernel", 1, 4, (x, y, z, out))
        exact = x.double() * y.double() + z.double()
        steps = torch.stack([(out.view(torch.int16) + step).view(dtype).double() for step in (-1, 0, 1)])
        gaps = (steps - exact).abs()
        assert (gaps[1] < gaps[0]).all() and (gaps[1] < gaps[2]).all()


def test_a_bfloat16_sum_beside_the_middle_is_not_taken_for_the_middle():
    """3 * 87 = 261 lies between 260 and 262, to even 260; 2^-60 more or less decides; a double loses it."""
    source = """
#include <cuda_bf16.h>
extern "C" __global__ void kernel(const __nv_bfloat16* x, __nv_bfloat16* out) {
  int i = threadIdx.x;
  out[i] = __hfma(__float2bfloat16(3.0f), x[2 * i], x[2 * i + 1]);
}"""
    x = torch.tensor([[87, 2.0**-60], [87, -(2.0**-60)], [87, 0], [89, -(2.0**-60)], [89, 0]]).bfloat16()
    out = torch.zeros(5, dtype=torch.bfloat16)
    run(source, "kernel", 1, 5, (x, out))
    assert out.tolist() == [262, 260, 260, 266, 268]


def test_numbers_of_every_type_become_halves_with_one_rounding():
    """Through a float first, each of these doubles and ints would land on the middle of two halves, and go to even."""
    source = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void kernel(const double* x, const int* n, __half* h, __nv_bfloat16* b) {
  h[0] = __half(x[0]);
  h[1] = __double2half(x[1]);
  b[0] = __int2bfloat16_rn(n[0]);
  b[1] = __nv_bfloat16(n[1]);
}"""
    x = torch.tensor([1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40], dtype=torch.float64)
    n = torch.tensor([2**30 + 2**22 + 1, 2**30 + 3 * 2**22 - 1], dtype=torch.int32)
    h, b = torch.zeros(2, dtype=torch.float16), torch.zeros(2, dtype=torch.bfloat16)
    run(source, "kernel", 1, 1, (x, n, h, b))
    assert h.tolist() == [1 + 2.0**-10, 1 + 2.0**-10]
    assert b.tolist() == [2.0**30 + 2**23, 2.0**30 + 2**23]


def test_rounding_leaves_no_trace():
    """After a directed operation ordinary ones round to nearest again, also in the next launch."""
    source = """
extern "C" __global__ void kernel(const float* x, float* out) {
  out[0] = __fadd_ru(x[0], x[1]);
  out[1] = x[0] + x[1];
  out[2] = __fadd_rd(x[0], -x[1]);
}"""
    x, out = torch.tensor([1.0, 2.0**-30]), torch.zeros(3)
    for _ in range(2):
        run(source, "kernel", 1, 1, (x, out))
        assert out.tolist() == [1 + 2.0**-23, 1.0, 1 - 2.0**-24]


def test_a_group_in_half_of_a_warp_names_the_line_it_waits_at():
    source = """
#include <cooperative_groups.h>
extern "C" __global__ void kernel(int* out) {
  auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
  if (threadIdx.x < 4)
    out[threadIdx.x] = tile.shfl(1, 0);
  else
    tile.sync();
}"""
    with pytest.raises(cpu.KernelFault, match=r"at inline\.cu:6 .*line 8") as caught:
        run(source, "kernel", 1, 8, (torch.zeros(8, dtype=torch.int32),))
    assert caught.value.kind == "absent lanes"


@pytest.mark.parametrize("mode", cpu.MODES)
def test_a_full_stack_is_a_fault_with_its_line(mode):
    if reason := cpu.missing_modes().get(mode):
        pytest.skip(reason)
    source = """
extern "C" __global__ void kernel(int* out) {
  volatile int cells[1 << 19];
  cells[threadIdx.x] = 1;
  out[threadIdx.x] = cells[threadIdx.x] + 1;
}"""
    with cpu.mode(mode), pytest.raises(cpu.KernelFault, match="stack overflow in kernel at inline.cu:[2-6]") as caught:
        run(source, "kernel", 1, 2, (torch.zeros(2, dtype=torch.int32),))
    assert caught.value.kind == "stack overflow"
