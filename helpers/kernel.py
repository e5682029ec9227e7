"""Compile a CUDA source and launch its kernels: through CuPy on a GPU, through the host build on a CPU."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from helpers import cpu
from helpers.cpu.faults import CompileError
from helpers.cpu.nvrtc_check import refusal
from helpers.cpu.source import Source, inline_includes, quoted
from helpers.machine import ROOT

if TYPE_CHECKING:
    import cupy

KERNELS = ROOT / "kernels"
_INLINE = "inline.cu"  # what a source given as text is called in messages
_DEFAULT_SHARED = 48 * 1024  # bytes of shared memory a block that a GPU grants without being asked
OLDEST_GPU = (7, 5)  # the compute capability from which on CUDA 13 compiles
_EARLY_LAUNCH = (9, 0)  # from which on a kernel can start before its predecessor has ended


@functools.cache
def _why_no_cuda():
    """None when kernels can run on a GPU, else the reason."""
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} finds no usable GPU"
    try:
        import cupy
    except (ImportError, OSError) as error:  # OSError: it makes its cache folder at once
        return f"CuPy can't be imported: {error}"
    capability = torch.cuda.get_device_capability()
    if capability < OLDEST_GPU:
        ours, needed = (".".join(map(str, numbers)) for numbers in (capability, OLDEST_GPU))
        name = torch.cuda.get_device_name()
        return f"{name} (compute capability {ours}) is too old for CUDA 13, which needs {needed}"
    return None if cupy.cuda.is_available() else "CuPy finds no usable GPU"


def device() -> str:
    """Where kernels run by default: "cuda" when it is usable, else "cpu".

    The environment variable KERNEL_DEVICE=cpu|cuda decides instead. Raises RuntimeError when it asks for a GPU
    that can't be used, and ValueError for another value.
    """
    wanted = os.environ.get("KERNEL_DEVICE", "")
    if wanted not in ("", "cpu", "cuda"):
        raise ValueError(f"KERNEL_DEVICE is {wanted!r}; it should be cpu or cuda")
    if wanted == "cpu":
        return "cpu"
    reason = _why_no_cuda()
    if wanted == "cuda" and reason:
        raise RuntimeError(f"KERNEL_DEVICE is cuda, but {reason}")
    return "cpu" if reason else "cuda"


def _read(source_or_path):
    """The Source that a file name in kernels/, a path, or CUDA text means."""
    if isinstance(source_or_path, str) and "\n" in source_or_path:
        return Source(_INLINE, source_or_path, KERNELS)
    path = Path(source_or_path)
    path = path if path.is_file() else KERNELS / path
    if not path.is_file():
        raise FileNotFoundError(f"no CUDA source {str(source_or_path)!r}, here or in {KERNELS}")
    path = path.resolve()
    return Source(str(path), path.read_text(), path.parent)


def cuda_include_dirs() -> list[str]:
    """The folders of CUDA's own headers for NVRTC: from the wheels, else from CUDA_PATH or /usr/local/cuda.

    CUDA's C++ library (CCCL), which cooperative groups include, comes in a package of its own; without it, CuPy's copy.
    """
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(folder) / "cu13" for folder in (spec.submodule_search_locations if spec else ())]
    roots += [Path(os.environ["CUDA_PATH"])] if "CUDA_PATH" in os.environ else []
    roots.append(Path("/usr/local/cuda"))
    for root in roots:
        include = root / "include"
        if (include / "cuda_fp16.h").is_file():
            cccl = [include / "cccl"] if (include / "cccl").is_dir() else _cccl_of_cupy()
            return [str(folder) for folder in (include, *cccl)]
    return []


def _cccl_of_cupy():
    spec = importlib.util.find_spec("cupy")
    if spec is None:
        return []
    root = Path(spec.origin).parent / "_core/include/cupy/_cccl"
    return [folder for folder in (root / "libcudacxx", root / "cub", root / "thrust") if folder.is_dir()]


def _nvrtc_options(defines):
    return (
        "-std=c++17",
        "-lineinfo",
        *(f"-I{folder}" for folder in cuda_include_dirs()),
        *(f"-D{name}={value}" for name, value in defines),
    )


def _nvrtc_text(source):
    """The source as NVRTC gets it: one text, whose messages carry the source's own file and lines."""
    return f"#line 1 {quoted(source.name)}\n{inline_includes(source)}"


@functools.lru_cache(maxsize=256)
def _compile_for_gpu(source, name_expressions, defines):
    import cupy

    module = cupy.RawModule(
        code=_nvrtc_text(source), options=_nvrtc_options(defines), name_expressions=name_expressions or None
    )
    try:
        module.compile()
    except cupy.cuda.compiler.CompileException as error:
        raise CompileError(error.get_message()) from None
    return module


@functools.lru_cache(maxsize=256)
def _compile_for_cpu(source, name_expressions, defines):
    """A HostModule of a source that NVRTC accepts too: what runs on a laptop must not die on a workshop's GPU."""
    with ThreadPoolExecutor(1) as pool:  # NVRTC reads the source while the host compiler does
        options = _nvrtc_options(defines)
        answer = pool.submit(refusal, source.name, _nvrtc_text(source), name_expressions, options)
        try:
            module = cpu.HostModule(source, name_expressions, defines)
        except CompileError as error:
            if answer.result() == "":
                raise CompileError(f"NVRTC compiles this for a GPU, but the CPU build can't:\n{error}") from None
            raise
    if answer.result():
        raise CompileError(f"NVRTC, which compiles this for a GPU, refuses it:\n{answer.result()}")
    return module


def compile_cuda(source_or_path: str | Path, name_expressions: Sequence[str] = (), *,
                 defines: Mapping[str, object] | None = None,
                 device: str | None = None) -> cupy.RawModule | cpu.HostModule:  # fmt: skip
    """Compile CUDA C++17 for a device.

    source_or_path: the name of a file in kernels/, a path, or the text of a source (anything with a newline).
    name_expressions: the kernels to instantiate, such as "copy<float, 4>"; extern "C" kernels need none.
    defines: dict of macro names to values. device: "cuda" or "cpu"; by default what `device()` says.

    Returns a cupy.RawModule on a GPU, or a HostModule with the same
    `get_function(name)(grid, block, args, shared_mem=0)`; `device_variable` reads and sets its `__device__` and
    `__constant__` variables. Repeated calls return the same object.
    Raises CompileError with the source's own file and lines: also for the CPU when NVRTC, where CuPy brings it, would
    refuse the source for a GPU.
    """
    where = globals()["device"]() if device is None else device
    if where not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}; it should be 'cpu' or 'cuda'")
    build = _compile_for_gpu if where == "cuda" else _compile_for_cpu
    return build(_read(source_or_path), tuple(name_expressions), tuple(sorted((defines or {}).items())))


def device_variable(module: cupy.RawModule | cpu.HostModule, name: str, shape: Sequence[int],
                    dtype: torch.dtype) -> torch.Tensor:  # fmt: skip
    """A `__device__` or `__constant__` variable as a tensor that shares its memory, on the module's device.

    module: from compile_cuda. name: of a variable outside of namespaces. shape, dtype: the tensor's, which must take
    the variable's bytes. `device_variable(module, "weights", [4], torch.float32).copy_(values)` sets it for all later
    launches. Raises ValueError for another name or size (on a GPU the size can't be known, and CuPy judges the name).
    """
    bytes_wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if isinstance(module, cpu.HostModule):
        variable = module.get_global(name)
        if bytes_wanted != variable.size:
            raise ValueError(f"{name} has {variable.size} bytes; shape {list(shape)} of {dtype} takes {bytes_wanted}")
        memory = (ctypes.c_char * variable.size).from_address(variable.address)
        return torch.frombuffer(memory, dtype=dtype).view(tuple(shape))
    import cupy

    memory = cupy.ndarray((bytes_wanted,), cupy.uint8, module.get_global(name))
    return torch.as_tensor(memory, device="cuda").view(dtype).view(tuple(shape))


def launch(function: cupy.RawKernel | cpu.HostFunction, grid: int | Sequence[int], block: int | Sequence[int],
           args: Sequence[torch.Tensor | np.generic | None], shared_mem: int = 0,
           pdl: bool = False) -> None:  # fmt: skip
    """Launch a kernel on torch's current stream, or on the CPU.

    function: from compile_cuda(...).get_function(name). grid, block: one to three sizes. args: torch tensors
    (their data pointer; None is a null pointer) and numpy scalars of the exact C type, such as np.int32(4).
    shared_mem: bytes of dynamic shared memory. pdl: allow the kernel to start before its predecessor has ended
    (programmatic dependent launch; without effect on the CPU and on GPUs before compute capability 9).

    Raises TypeError for a Python number, because a kernel can't tell how wide it is, for a tensor on another
    device, and for sizes that are no ints; ValueError for sizes that no launch can have, and for a tensor whose
    values a kernel would not find at its address (`why_unreadable`). Raises cpu.KernelFault when the kernel goes
    wrong: on the CPU always; on a GPU, where an error shows up in some later call, only if the environment has
    CUDA_LAUNCH_BLOCKING=1 (then each launch is waited for).
    """
    for position, argument in enumerate(args):
        if not (argument is None or isinstance(argument, torch.Tensor | np.generic)):
            raise TypeError(
                f"argument {position} is a {type(argument).__name__}; it should be a torch tensor, None, "
                f"or a numpy scalar of the kernel's exact type, such as np.int32(...)"
            )
        if isinstance(argument, torch.Tensor) and (reason := why_unreadable(argument)):
            raise ValueError(f"argument {position} is {reason}")
    if not isinstance(pdl, bool):
        raise TypeError(f"pdl is {pdl!r}; it should be True or False")
    grid, block = cpu.launch_sizes(grid, block, shared_mem)
    if isinstance(function, cpu.HostFunction):
        function(grid, block, args, shared_mem=shared_mem)
        return
    import cupy

    for position, argument in enumerate(args):
        if isinstance(argument, torch.Tensor) and argument.device.type != "cuda":
            raise TypeError(f"argument {position} is on {argument.device}; it should be on a GPU, like the kernel")
    values = [_device_value(argument) for argument in args]
    _check_sizes(function, values)
    needs_leave = shared_mem and shared_mem + function.shared_size_bytes > _DEFAULT_SHARED
    if needs_leave and function.max_dynamic_shared_size_bytes < shared_mem:
        function.max_dynamic_shared_size_bytes = shared_mem
    stream = torch.cuda.current_stream()
    waits = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1" and not torch.cuda.is_current_stream_capturing()
    try:
        if pdl and torch.cuda.get_device_capability() >= _EARLY_LAUNCH:
            _launch_dependent(function, grid, block, values, shared_mem, stream)
        else:
            with cupy.cuda.Stream.from_external(stream):
                function(grid, block, tuple(values), shared_mem=shared_mem)
        if waits:
            stream.synchronize()
    except RuntimeError as error:  # what CuPy and torch raise for a CUDA error
        if not waits:
            raise
        first_line = str(error).strip().splitlines()[0]
        raise cpu.KernelFault("CUDA error", first_line, kernel=_plain_name(function), report=str(error)) from None


def why_unreadable(tensor: torch.Tensor) -> str:
    """Why a kernel would not find a tensor's values at its address, or gradients would be lost, as the end of a
    sentence "x is ..."; "" for an ordinary tensor."""
    if tensor.layout != torch.strided or tensor.is_nested:
        return f"of layout {tensor.layout}{', nested' if tensor.is_nested else ''}; it should be an ordinary tensor"
    if tensor.is_neg() or tensor.is_conj():
        return "a lazy negation or conjugate; resolve it first (.resolve_neg(), .resolve_conj())"
    if torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None:
        return "a dual tensor, and the kernels have no forward-mode derivative; call with the primal"
    if tensor.requires_grad and torch.is_grad_enabled():
        return "one that requires grad, and the kernels have no backward; call under torch.no_grad()"
    if tensor.numel() and tensor.device.type in ("cpu", "cuda") and not _has_memory(tensor):
        return f"a {type(tensor).__name__} without memory, as inside torch.func.vmap; it should be an ordinary tensor"
    return ""


def _has_memory(tensor):
    try:
        return tensor.data_ptr() != 0
    except RuntimeError:
        return False


def captured(call: Callable[[], object], count: int = 1) -> Callable[[], None]:
    """`count` calls of a function without arguments as one CUDA graph: returns what replays it. Calls it once before,
    so that everything is compiled, which a capture can't do."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph.replay


def _plain_name(function):
    """A kernel's name as in its source. CuPy knows a template by its mangled name: _Z, a length, the name, the rest."""
    mangled = re.match(r"_Z(\d+)", function.name)
    if not mangled:
        return function.name
    return function.name[mangled.end() :][: int(mangled[1])]


@functools.lru_cache(maxsize=256)
def _parameter_sizes(function):
    """Bytes of each parameter of a CuPy kernel, as the driver knows them; () without the driver's Python calls."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return ()
    sizes = []
    while True:
        status, _, size = driver.cuFuncGetParamInfo(driver.CUfunction(function.kernel.ptr), len(sizes))
        if status != driver.CUresult.CUDA_SUCCESS:
            return tuple(sizes)
        sizes.append(size)


def _check_sizes(function, values):
    """Refuse arguments of the wrong number or width, which a GPU would read as other bytes."""
    sizes = _parameter_sizes(function)
    if sizes and len(values) != len(sizes):
        raise TypeError(f"{function.name} takes {len(sizes)} arguments, {len(values)} given")
    for position, (size, value) in enumerate(zip(sizes, values, strict=False)):
        if value.nbytes != size:
            raise TypeError(
                f"{function.name}: argument {position} has {size} bytes, got {value.dtype} of {value.nbytes} bytes"
            )


def _device_value(argument):
    """A numpy scalar with the bytes of one kernel argument."""
    if isinstance(argument, np.generic):
        return argument
    return np.uint64(0 if argument is None else argument.data_ptr())


def _launch_dependent(function, grid, block, values, shared_mem, stream):
    """Launch with programmatic stream serialization, which CuPy has no call for."""
    from cuda.bindings import driver

    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes = shared_mem
    config.hStream = driver.CUstream(stream.cuda_stream)
    config.attrs = [attribute]
    config.numAttrs = 1
    storage = [(ctypes.c_char * value.nbytes).from_buffer_copy(value.tobytes()) for value in values]
    pointers = (ctypes.c_void_p * max(1, len(storage)))(*(ctypes.addressof(value) for value in storage))
    (status,) = driver.cuLaunchKernelEx(config, driver.CUfunction(function.kernel.ptr), ctypes.addressof(pointers), 0)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuLaunchKernelEx of {function.name} failed: {status.name}")


@dataclass(frozen=True)
class Cubin:
    """A compiled source: machine code for one architecture, such as "sm_90"."""

    cubin: bytes
    arch: str
    names: dict  # name expression -> name in the cubin
    log: str  # what the compiler printed
    seconds: float


def compile_to_cubin(source_or_path: str | Path, name_expressions: Sequence[str] = (), arch: str = "sm_90", *,
                     defines: Mapping[str, object] | None = None) -> Cubin:  # fmt: skip
    """Compile with NVRTC for an architecture; needs neither a GPU nor a driver.

    Arguments as for compile_cuda. Returns a Cubin. Raises CompileError with the source's own file and lines.
    """
    from cupy.cuda import nvrtc

    source = _read(source_or_path)
    options = (*_nvrtc_options(sorted((defines or {}).items())), f"-arch={arch}", "-default-device")
    start = time.perf_counter()
    program = nvrtc.createProgram(_nvrtc_text(source), source.name, (), ())
    try:
        for name in name_expressions:
            nvrtc.addNameExpression(program, name)
        nvrtc.compileProgram(program, options)
        names = {name: nvrtc.getLoweredName(program, name) for name in name_expressions}
        return Cubin(nvrtc.getCUBIN(program), arch, names, nvrtc.getProgramLog(program), time.perf_counter() - start)
    except nvrtc.NVRTCError as error:
        raise CompileError(nvrtc.getProgramLog(program).strip() or str(error)) from None
    finally:
        nvrtc.destroyProgram(program)
