"""compile_cuda, launch and compile_to_cubin: one source on every device, and errors that point into it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import compile_cuda, compile_to_cubin, cpu, device as best_device, kernel, launch

ADD = """
template <typename T, int kPerThread>
__global__ void add(const T* x, const T* y, T* out, int n, T offset) {
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * kPerThread;
  for (int i = first; i < first + kPerThread && i < n; ++i) out[i] = x[i] + y[i] + offset + T(EXTRA);
}
extern "C" __global__ void sum_in_shared(const int* x, int* out) {
  extern __shared__ int words[];
  words[threadIdx.x * 32] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 0; i < blockDim.x; ++i) *out += words[i * 32];
}
"""
NAMES = ["add<float, 4>", "add<int, 1>", "sum_in_shared"]
needs_gpu = pytest.mark.skipif(kernel._why_no_cuda() is not None, reason="needs a GPU")


def compiled(device, name, extra=0):
    return compile_cuda(ADD, NAMES, defines={"EXTRA": extra}, device=device).get_function(name)


def operands(device, dtype, n=1000):
    x, y = torch.arange(n, device=device).to(dtype), (torch.arange(n, device=device) * 3).to(dtype)
    return x, y, torch.full((n,), -1, dtype=dtype, device=device)


def test_templates_defines_and_scalars(device):
    """Both instantiations, with different scalars and a macro; a launch that drops one gives other numbers."""
    x, y, out = operands(device, torch.float32)
    launch(compiled(device, "add<float, 4>", 2), 4, 64, (x, y, out, np.int32(998), np.float32(0.5)))
    assert out.tolist() == [*(4 * i + 2.5 for i in range(998)), -1, -1]
    x, y, out = operands(device, torch.int32)
    launch(compiled(device, "add<int, 1>"), (8, 2), (64,), (x, y, out, np.int32(100), np.int32(7)))
    assert out.tolist() == [*(4 * i + 7 for i in range(100)), *[-1] * 900]


def test_strided_views_are_passed_by_their_first_element(device):
    x = torch.arange(64, dtype=torch.int32, device=device).view(8, 8)
    out = torch.zeros(1, dtype=torch.int32, device=device)
    launch(compiled(device, "sum_in_shared"), 1, 4, (x[2:, 3:], out), shared_mem=4 * 32 * 4)
    assert out.item() == 19 + 20 + 21 + 22


def test_more_shared_memory_than_48_kib(device):
    x, out = torch.arange(1024, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    launch(compiled(device, "sum_in_shared"), 1, 1024, (x, out), shared_mem=1024 * 32 * 4)
    assert out.item() == 1023 * 512


@pytest.mark.parametrize("value", [3, 0.5, [1], "x"])
def test_python_values_are_refused(device, value):
    x, y, out = operands(device, torch.int32)
    with pytest.raises(TypeError, match=rf"argument 3 is a {type(value).__name__}; it should be a torch tensor, None"):
        launch(compiled(device, "add<int, 1>"), 1, 1, (x, y, out, value, np.int32(0)))
    assert (out == -1).all()


def test_a_scalar_of_another_width_is_refused(device):
    x, y, out = operands(device, torch.int32)
    with pytest.raises(TypeError, match="argument 3.* 4 bytes, got int64 of 8 bytes"):
        launch(compiled(device, "add<int, 1>"), 1, 1, (x, y, out, np.int64(1), np.int32(0)))
    with pytest.raises(TypeError, match="takes 5 arguments, 4 given"):
        launch(compiled(device, "add<int, 1>"), 1, 1, (x, y, out, np.int32(1)))
    assert (out == -1).all()


@pytest.mark.parametrize("what", ("grid", "block"))
def test_sizes_are_one_to_three_whole_numbers(device, what):
    """A number that int() would cut is none. Sizes of numpy are, and a list is as good as a tuple."""
    x, out = torch.ones(8, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)

    def run(sizes):
        shape = {"grid": (1,), "block": (1,)} | {what: sizes}
        out.zero_()
        launch(compiled(device, "sum_in_shared"), shape["grid"], shape["block"], (x, out), shared_mem=4096)
        return out.item()

    for sizes in (1, (1,), [1, 1], (1, 1, 1), np.int64(1), (np.int32(1),), np.array([1, 1])):
        assert run(sizes) == 1
    for bad in (1.0, (1.5,), (1, 1.5), "1", ("1",), None, (None,), True, (True,), np.float32(1), np.bool_(True), [[1]]):
        with pytest.raises(TypeError, match=rf"{what} is .*, expected one to three ints"):
            run(bad)
    for bad in ((), (1, 1, 1, 1), 0, -1, (1, 0), (1, 1, -1), (1, 1, 65536), (1, 65536)):
        with pytest.raises(ValueError, match=rf"{what} is .*, expected .*sizes"):
            run(bad)
    assert out.item() == 0


def test_a_launch_is_as_large_as_it_can_be_and_no_larger(device):
    source = 'extern "C" __global__ void count(int* out) { atomicAdd(out, 1); }\n'
    function = compile_cuda(source, ["count"], device=device).get_function("count")
    out = torch.zeros(1, dtype=torch.int32, device=device)
    sizes = [(1, 1024), (1, (1, 1024)), (1, (16, 1, 64)), ((1, 1, 65535), 1), ((1, 65535), 1)]
    for grid, block in sizes:
        launch(function, grid, block, (out,))
    assert out.item() == 3 * 1024 + 2 * 65535
    for grid, block in ((1, 1025), (1, (2, 513)), (1, (1, 1025)), (1, (1, 1, 65)), (2**31, 1), ((1, 1, 65536), 1)):
        with pytest.raises(ValueError, match="(grid|block) (is|has)"):
            launch(function, grid, block, (out,))
    assert out.item() == 3 * 1024 + 2 * 65535


def test_shared_memory_is_a_number_of_bytes(device):
    x, out = torch.ones(8, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    arguments = compiled(device, "sum_in_shared"), 1, 1, (x, out)
    for given in (4096, np.int64(4096)):
        launch(*arguments, shared_mem=given)
    for bad in (4096.0, "4096", None, True):
        with pytest.raises(TypeError, match=rf"shared_mem is {bad!r}, expected an int"):
            launch(*arguments, shared_mem=bad)
    with pytest.raises(ValueError, match="shared_mem is -1, expected no less than 0"):
        launch(*arguments, shared_mem=-1)
    for bad in (1, None, "yes"):
        with pytest.raises(TypeError, match=rf"pdl is {bad!r}; it should be True or False"):
            launch(*arguments, shared_mem=4096, pdl=bad)
    assert out.item() == 2


def test_a_tensor_whose_values_are_not_at_its_address_is_refused(device):
    x, out = torch.ones(8, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    disguised = {
        "a lazy negation": torch._neg_view(x),
        "of layout torch.sparse_coo": x.to_sparse(),
        "a Tensor without memory": torch._efficientzerotensor(8, dtype=torch.int32, device=device),
        "one that requires grad": torch.ones(8, device=device, requires_grad=True),
    }
    for said, tensor in disguised.items():
        with pytest.raises(ValueError, match=f"argument 0 is {said}"):
            launch(compiled(device, "sum_in_shared"), 1, 1, (tensor, out), shared_mem=4096)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(*torch.ones(2, 8, device=device))
        with pytest.raises(ValueError, match="argument 0 is a dual tensor"):
            launch(compiled(device, "sum_in_shared"), 1, 1, (dual, out), shared_mem=4096)
    assert out.item() == 0


def test_tensors_on_another_device_are_refused():
    x = torch.zeros(1, dtype=torch.int32, device="meta")
    with pytest.raises(TypeError, match=r"argument 0 \(x\) is on meta, expected a tensor on the CPU"):
        launch(compiled("cpu", "sum_in_shared"), 1, 1, (x, x))


def test_compile_errors_name_file_and_line(device, tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void kernel(int* x) {\n  x[0] = mistake;\n}\n')
    with pytest.raises(cpu.CompileError, match=rf"{path}[:(]2\D.*error"):
        compile_cuda(path, ["kernel"], device=device)
    with pytest.raises(cpu.CompileError, match=r"inline\.cu[:(]3\D.*error"):
        compile_cuda("\n" + path.read_text(), ["kernel"], device=device)
    with pytest.raises(cpu.CompileError, match=rf"{path}\(2\).*error"):
        compile_to_cubin(path, ["kernel"])


def test_sources_are_found_in_kernels_and_compiled_once(device):
    assert compile_cuda("leave_in_shared.cu", ["leave_in_shared"], device=device) is compile_cuda(
        kernel.KERNELS / "leave_in_shared.cu", ["leave_in_shared"], device=device
    )
    with pytest.raises(FileNotFoundError, match="no CUDA source 'absent.cu'"):
        compile_cuda("absent.cu", ["x"], device=device)
    with pytest.raises(ValueError, match="device is 'tpu'; it should be 'cpu' or 'cuda'"):
        compile_cuda(ADD, NAMES, device="tpu")


def test_an_edited_file_is_compiled_again(device, tmp_path):
    path = tmp_path / "edited.cu"
    for value in (1, 2):
        path.write_text(f'extern "C" __global__ void kernel(int* x) {{ *x = {value}; }}\n')
        out = torch.zeros(1, dtype=torch.int32, device=device)
        launch(compile_cuda(path, device=device).get_function("kernel"), 1, 1, (out,))
        assert out.item() == value


@pytest.mark.parametrize("arch", ["sm_75", "sm_120"])
def test_cubins_need_no_gpu(arch):
    built = compile_to_cubin(ADD, NAMES, arch, defines={"EXTRA": 0})
    assert built.cubin[:4] == b"\x7fELF" and built.arch == arch and built.seconds > 0
    assert list(built.names) == NAMES and built.names["sum_in_shared"] == "sum_in_shared"
    assert built.names["add<float, 4>"].encode() in built.cubin


def test_cubin_with_half_types_finds_the_headers():
    source = '#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nextern "C" __global__ void k(__half* x) { x[0] += x[1]; }'
    assert b"k" in compile_to_cubin(source, arch="sm_90").cubin
    with pytest.raises(cpu.CompileError, match="invalid value for --gpu-architecture"):
        compile_to_cubin(source, arch="sm_17")


def test_cooperative_groups_compile_without_the_package_of_cudas_cpp_library(tmp_path, monkeypatch):
    """As where only NVRTC and CUDA's runtime are installed: CuPy brings the headers that are missing."""
    folders = kernel.cuda_include_dirs()
    if not folders:
        pytest.skip("CUDA's headers aren't installed")
    (tmp_path / "include").mkdir()
    for path in Path(folders[0]).iterdir():
        if path.name not in ("cccl", "nv"):
            (tmp_path / "include" / path.name).symlink_to(path)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nvidia" else find_spec(name))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert kernel.cuda_include_dirs()[0] == str(tmp_path / "include")
    source = "#include <cooperative_groups.h>\n"
    source += "__global__ void k() { cooperative_groups::this_thread_block().sync(); }\n"
    assert b"k" in compile_to_cubin(source, arch="sm_90").cubin


def test_the_environment_chooses_the_device(monkeypatch):
    monkeypatch.setenv("KERNEL_DEVICE", "cpu")
    assert best_device() == "cpu"
    monkeypatch.setenv("KERNEL_DEVICE", "tpu")
    with pytest.raises(ValueError, match="KERNEL_DEVICE is 'tpu'; it should be cpu or cuda"):
        best_device()
    monkeypatch.setenv("KERNEL_DEVICE", "cuda")
    monkeypatch.setattr(kernel, "_why_no_cuda", lambda: "there is none")
    with pytest.raises(RuntimeError, match="KERNEL_DEVICE is cuda, but there is none"):
        best_device()
    monkeypatch.delenv("KERNEL_DEVICE")
    assert best_device() == "cpu"


@pytest.mark.parametrize(
    ("name", "capability", "usable"),
    [("Tesla V100", (7, 0), False), ("TITAN Xp", (6, 1), False), ("Tesla T4", (7, 5), True), ("H200", (9, 0), True)],
)
def test_a_gpu_too_old_for_cuda_13_is_refused_by_name(monkeypatch, name, capability, usable):
    cupy = pytest.importorskip("cupy")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    monkeypatch.setattr(cupy.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernel, "_why_no_cuda", kernel._why_no_cuda.__wrapped__)
    monkeypatch.delenv("KERNEL_DEVICE", raising=False)
    assert best_device() == ("cuda" if usable else "cpu")
    monkeypatch.setenv("KERNEL_DEVICE", "cuda")
    if usable:
        assert best_device() == "cuda"
    else:
        major, minor = capability
        with pytest.raises(RuntimeError, match=rf"{name} \(compute capability {major}\.{minor}\) is too old .* 7\.5"):
            best_device()


@needs_gpu
@pytest.mark.parametrize("pdl", [False, True])
def test_launches_follow_torchs_stream_and_can_be_captured(pdl):
    """Replayed on new input, the graph must give new output. A launch on another stream isn't in the graph."""
    function = compiled("cuda", "add<int, 1>")
    x, y, out = operands("cuda", torch.int32)
    arguments = (x, y, out, np.int32(1000), np.int32(7))
    launch(function, 16, 64, arguments, pdl=pdl)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch(function, 16, 64, arguments, pdl=pdl)
        out += 1
    x.fill_(5), y.fill_(6), out.fill_(0)
    graph.replay()
    assert out.tolist() == [19] * 1000
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        x.fill_(1)
        launch(function, 16, 64, arguments, pdl=pdl)
    stream.synchronize()
    assert out.tolist() == [14] * 1000


@needs_gpu
def test_cpu_tensors_are_refused_by_a_gpu_kernel():
    x, y, out = operands("cpu", torch.int32)
    with pytest.raises(TypeError, match="argument 0 is on cpu; it should be on a GPU"):
        launch(compiled("cuda", "add<int, 1>"), 1, 1, (x, y, out, np.int32(1), np.int32(0)))
