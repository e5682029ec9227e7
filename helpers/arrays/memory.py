"""Memory that shows mistakes: poisoned outputs, arrays between guard pages."""

import weakref
from collections.abc import Sequence

import torch

POISON = 0xCB  # the byte that poisoned memory is filled with; as an int32 it is -875836469


def poisoned(shape: Sequence[int], dtype: torch.dtype, device: torch.device | str = "cpu") -> torch.Tensor:
    """A tensor in which every byte is 0xCB, so that an element nobody wrote can be told from one that was."""
    return torch.empty(shape, dtype=dtype, device=device).view(torch.uint8).fill_(POISON).view(dtype)


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """bool, like `tensor`: which elements still hold poison in every byte."""
    bytes_ = tensor.contiguous().view(torch.uint8).view(*tensor.shape, tensor.element_size())
    return (bytes_ == POISON).all(dim=-1)


def guarded(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of `tensor` that starts right behind an unmapped page and ends before another one.

    On a GPU: index -1 faults every time, and so does any index past the end of the last 2 MiB page (memory is mapped
    in units of 2 MiB; make the tensor a multiple of that to have no slack). In a plain allocation the same index
    reads a neighbour and raises nothing. On a CPU this is a plain copy: there the checked mode of the CPU build
    puts a red zone around every argument of every kernel.
    """
    if tensor.device.type == "cpu":
        return tensor.clone()
    mapping = _GuardedMapping(tensor.numel() * tensor.element_size())
    flat = torch.as_tensor(mapping, device=tensor.device)
    copy = flat[: tensor.numel() * tensor.element_size()].view(tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor)


class _GuardedMapping:
    """2 MiB pages of GPU memory with unmapped addresses on both sides, through CUDA's virtual memory management."""

    def __init__(self, num_bytes):
        from cuda.bindings import driver  # only a machine with a GPU needs it

        torch.cuda.init()
        prop = driver.CUmemAllocationProp()
        prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = torch.cuda.current_device()
        minimum = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        page = _checked(driver.cuMemGetAllocationGranularity(prop, minimum))
        size = max(1, -(-num_bytes // page)) * page
        reserved = _checked(driver.cuMemAddressReserve(size + 2 * page, 0, 0, 0))
        start = int(reserved) + page
        handle = _checked(driver.cuMemCreate(size, prop, 0))
        _checked(driver.cuMemMap(start, size, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = prop.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _checked(driver.cuMemSetAccess(start, size, [access], 1))
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (start, False), "version": 3, "strides": None,
        }  # fmt: skip
        weakref.finalize(self, _unmap, start, size, page, handle)


def _unmap(start, size, page, handle):
    from cuda.bindings import driver

    torch.cuda.synchronize()
    driver.cuMemUnmap(start, size)
    driver.cuMemRelease(handle)
    driver.cuMemAddressFree(start - page, size + 2 * page)


def _checked(result):
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(f"the CUDA driver returned {error.name} for guarded memory")
    return values[0] if values else None
