"""Numbers and variables on the CPU build: conversions, shifts and NaN as on a GPU or reported, `__device__` memory."""

import numpy as np
import pytest
import torch

from helpers import compile_cuda, cpu, device_variable, launch

i32 = np.int32


@pytest.fixture(params=cpu.MODES)
def mode(request):
    if reason := cpu.missing_modes().get(request.param):
        pytest.skip(f"mode {request.param} needs {reason}")
    return request.param


def kernel(source, name="kernel", device="cpu"):
    return compile_cuda("\n" + source, device=device).get_function(name)


# ---- variables that outlive a launch -------------------------------------------------------------------

COUNTER = """__device__ int launches;
__device__ const int kStep = 1;
__constant__ float weights[2][2] = {{1, 2}, {3, 4}};
namespace deep { namespace down { __device__ long long squares[3], unused = 7; } }
#ifdef NOBODY
__device__ int missing;
#endif
__device__ int twice(int x) noexcept { return 2 * x; }
__device__ __align__(16) int last{5};
extern "C" __global__ void kernel(float* out) {
  launches += kStep;
  deep::down::squares[launches % 3] = launches * launches;
  last = twice(last);
  if (threadIdx.x == 0) for (int i = 0; i < 4; ++i) out[i] = weights[i / 2][i % 2];
}"""


def counter(device="cpu"):
    """A module of its own, whose variables have their first values."""
    counter.number += 1
    return compile_cuda(f"\n{COUNTER}\n// {device} {counter.number}", device=device)


counter.number = 0


def test_a_device_variable_is_kept_from_launch_to_launch(device):
    module, out = counter(device), torch.zeros(4, device=device)
    for _ in range(3):
        launch(module.get_function("kernel"), 1, 1, (out,))
    assert device_variable(module, "launches", [], torch.int32).item() == 3
    assert device_variable(module, "last", [1], torch.int32).tolist() == [40]


def test_device_variables_are_kept_in_every_mode_and_from_mode_to_mode(mode):
    module, out = counter(), torch.zeros(4)
    with cpu.mode(mode):
        for _ in range(3):
            launch(module.get_function("kernel"), 1, 1, (out,))
    assert device_variable(module, "launches", [], torch.int32).item() == 3
    launch(module.get_function("kernel"), 1, 1, (out,))
    with cpu.mode(mode):
        launch(module.get_function("kernel"), 1, 1, (out,))
    assert device_variable(module, "launches", [], torch.int32).item() == 5
    assert device_variable(module, "deep::down::squares", [3], torch.int64).tolist() == [9, 16, 25]
    assert device_variable(module, "last", [], torch.int32).item() == 160


def test_a_constant_is_set_by_one_line(device):
    module, out = counter(device), torch.zeros(4, device=device)
    launch(module.get_function("kernel"), 1, 1, (out,))
    assert out.tolist() == [1, 2, 3, 4]
    device_variable(module, "weights", [2, 2], torch.float32).copy_(torch.tensor([[5.0, 6], [7, 8]]))
    launch(module.get_function("kernel"), 1, 1, (out,))
    assert out.tolist() == [5, 6, 7, 8]


def test_a_constant_that_python_set_reaches_every_mode(mode):
    module, out = counter(), torch.zeros(4)
    device_variable(module, "weights", [4], torch.float32).copy_(torch.tensor([5.0, 6, 7, 8]))
    with cpu.mode(mode):
        launch(module.get_function("kernel"), 1, 1, (out,))
    assert out.tolist() == [5, 6, 7, 8]


def test_a_device_variable_that_does_not_fit_is_refused():
    module = counter()
    with pytest.raises(ValueError, match=r"'weight' is not among the device variables of inline.cu: deep::down::squ"):
        device_variable(module, "weight", [4], torch.float32)
    with pytest.raises(ValueError, match=r"weights has 16 bytes; shape \[3\] of torch.float32 takes 12"):
        device_variable(module, "weights", [3], torch.float32)
    with pytest.raises(ValueError, match="'missing' is not among the device variables"):
        device_variable(module, "missing", [1], torch.int32)


# ---- numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, says",
    [
        ("(int)x[0]", "1e+20 is outside the range of representable values of type 'int'"),
        ("(int)x[1]", "nan is outside the range of representable values of type 'int'"),
        ("(unsigned)x[2]", "-1.5 is outside the range of representable values of type 'unsigned int'"),
        ("(int)(1u << 31 >> n)", "shift exponent 32 is too large for 32-bit type 'unsigned int'"),
    ],
)
def test_what_a_gpu_answers_otherwise_is_reported_by_checked(expression, says):
    """A GPU saturates, and gives 0 for NaN and for a shift by the width; C++ says nothing of the kind."""
    source = f"""extern "C" __global__ void kernel(const float* x, int* out, int n) {{
  out[0] =
    {expression};
}}"""
    x = torch.tensor([1e20, float("nan"), -1.5])
    with cpu.mode("checked"), pytest.raises(cpu.KernelFault) as caught:
        launch(kernel(source), 1, 1, (x, torch.zeros(1, dtype=torch.int32), i32(32)))
    assert (caught.value.kind, caught.value.line) == ("undefined behaviour", 4)
    assert says in str(caught.value)


def test_min_and_max_of_a_nan_and_a_number_are_the_number(device):
    source = """extern "C" __global__ void kernel(const double* x, const float* y, double* out) {
  out[0] = min(x[0], x[1]); out[1] = min(x[1], x[0]); out[2] = max(x[0], x[1]); out[3] = max(x[1], x[0]);
  out[4] = min(y[0], y[1]); out[5] = max(y[1], y[0]); out[6] = min(y[0], x[1]); out[7] = max(x[1], y[0]);
  out[8] = min(x[2], x[1]); out[9] = max(x[2], x[1]); out[10] = max(-3, 2u); out[11] = min(x[0], x[0]);
}"""
    x = torch.tensor([float("nan"), 0.1, -5.0], dtype=torch.float64, device=device)
    out = torch.zeros(12, dtype=torch.float64, device=device)
    launch(kernel(source, device=device), 1, 1, (x, x.float(), out))
    small = x[1].float().double().item()
    assert out[:11].tolist() == [0.1] * 4 + [small] * 2 + [0.1] * 2 + [-5.0, 0.1, 2**32 - 3]
    assert out[11].isnan()


def test_device_code_is_told_from_host_code_as_on_a_gpu(device):
    source = """extern "C" __global__ void kernel(int* out) {
#ifdef __CUDA_ARCH__
  out[0] = __CUDA_ARCH__ >= 700;
#endif
#ifdef CUDA_ON_HOST
  out[1] = 1;
#endif
}"""
    out = torch.zeros(2, dtype=torch.int32, device=device)
    launch(kernel(source, device=device), 1, 1, (out,))
    assert out.tolist() == [1, int(device == "cpu")]
