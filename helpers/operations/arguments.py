"""Checks that every host function makes on its arguments before it launches anything.

Each raises `TypeError` or `ValueError` with the argument's name, what it was, and what it should be.
"""

import os
from collections.abc import Mapping, Sequence

import torch

from helpers.kernel import why_unreadable

MAX_INT32 = 2**31 - 1


def check_values() -> bool:
    """Whether to look at the *contents* of index tensors too (environment variable KERNEL_CHECK, default 1).

    On a GPU this waits for the tensor, so timings switch it off, and it is off while a CUDA graph is captured.
    """
    if os.environ.get("KERNEL_CHECK", "1") == "0":
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def require_tensor(name: str, value: object, *, dtypes: Sequence[torch.dtype], ndim: int,
                   device: torch.device | None = None, shape: Sequence[int | None] | None = None) -> None:  # fmt: skip
    """Demand a torch tensor of one of `dtypes`, with `ndim` dimensions, the last one contiguous.

    `shape` entries that are None may be anything. Rows may be strided views. A kernel reads the memory as it is and
    has no derivative, so what is refused is a tensor whose values aren't there (lazily negated, wrapped by a transform,
    without memory) and one that records gradients, backward or forward.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; it should be a torch tensor")
    if value.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name} is on {value.device}; it should be on a CPU or a GPU")
    if reason := why_unreadable(value):
        raise ValueError(f"{name} is {reason}")
    if value.dtype not in dtypes:
        raise TypeError(f"{name} has dtype {_dtype(value.dtype)}; it should be {' or '.join(map(_dtype, dtypes))}")
    if value.ndim != ndim:
        raise ValueError(f"{name} has shape {list(value.shape)}; it should have {ndim} dimensions")
    if device is not None and value.device != device:
        raise ValueError(f"{name} is on {value.device}; it should be on {device} like the other tensors")
    if shape is not None and any(want not in (None, have) for want, have in zip(shape, value.shape, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} has shape {list(value.shape)}; it should be [{wanted}]")
    if value.numel() and value.shape[-1] > 1 and value.stride(-1) != 1:
        raise ValueError(f"{name} has inner stride {value.stride(-1)}; its last dimension should be contiguous")


def require_count(name: str, value: int) -> None:
    """Demand that a size fits the int32 in which a kernel gets it."""
    require_int(name, value, 0, MAX_INT32)


def require_contiguous(name: str, value: torch.Tensor) -> None:
    """Demand a tensor without gaps, its elements in the order of its dimensions."""
    if not value.is_contiguous():
        raise ValueError(f"{name} has strides {list(value.stride())}; it should be contiguous")


def require_int(name: str, value: object, low: int, high: int) -> None:
    """Demand a Python int with low <= value <= high."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}; it should be an int")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it should be between {low} and {high}")


def require_power_of_two(name: str, value: object, high: int) -> None:
    """Demand a Python int that is a power of two, from 1 to `high`."""
    require_int(name, value, 1, high)
    if value & (value - 1):
        raise ValueError(f"{name} is {value}; it should be a power of two")


def require_one_of(name: str, value: object, allowed: Sequence[str] | Sequence[int]) -> None:
    """Demand one of `allowed`, which are all strings or all ints; True is no int."""
    wanted = type(allowed[0])
    if type(value) is not wanted:
        raise TypeError(f"{name} is {value!r}; it should be {'an int' if wanted is int else 'a string'}")
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it should be {' or '.join(map(repr, allowed))}")


def require_bool(name: str, value: object) -> None:
    """Demand True or False; 0 and 1 are neither."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; it should be True or False")


def require_apart(outputs: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor]) -> None:
    """Demand that no output [rows, columns] shares memory with itself, another output, or an input (name -> tensor),
    which has rows too or is one.

    Column ranges of one buffer, such as K and V in one cache, are apart although their rows alternate.
    """
    for name, out in outputs.items():
        if out.shape[0] > 1 and out.stride(0) < out.shape[1]:
            raise ValueError(f"{name} has rows of {out.shape[1]} at a stride of {out.stride(0)}; they overlap")
    names = list(outputs)
    for i, name in enumerate(names):
        others = {other: outputs[other] for other in names[i + 1 :]} | inputs
        for other, tensor in others.items():
            if _share_memory(outputs[name], tensor):
                raise ValueError(f"{name} shares memory with {other}; they should be apart")


def _share_memory(a, b):
    """Whether any byte of a is one of b's, by their addresses: two views of one buffer may have come in separately."""
    if a.numel() == 0 or b.numel() == 0:
        return False
    a, b = (tensor if tensor.ndim == 2 else tensor.view(1, -1) for tensor in (a, b))
    (a_start, a_end), (b_start, b_end) = _span(a), _span(b)
    if a_end <= b_start or b_end <= a_start:
        return False
    strides = {row_stride_bytes(tensor) for tensor in (a, b) if tensor.shape[0] > 1}
    if len(strides) != 1:
        return True
    (stride,) = strides
    gap = (b_start - a_start) % stride if stride else 0  # from a row of a to the next row of b
    return gap < a.shape[1] * a.element_size() or gap + b.shape[1] * b.element_size() > stride


def row_stride_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a row to the next, 0 where there is only one: then torch may say anything."""
    return tensor.stride(0) * tensor.element_size() if tensor.shape[0] > 1 else 0


def _span(tensor):
    """First and last + 1 byte that a tensor with strides of its own reaches."""
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def require_range(name: str, values: torch.Tensor, low: int, high: int, meaning: str) -> None:
    """Demand low <= every element < high. Looks at the contents: call it only under `check_values()`."""
    if values.numel() == 0:
        return
    outside = (values < low) | (values > high - 1)  # high itself may be beyond the dtype
    if bool(outside.any()):
        where = int(outside.flatten().nonzero()[0])
        raise ValueError(
            f"{name} holds {int(values.flatten()[where])} at position {where}; {meaning} should be in [{low}, {high})"
        )


def require_pages(page_table: torch.Tensor, seq_lens: torch.Tensor, page_size: int, num_pages: int) -> None:
    """Demand that the pages in use, those that start before their sequence ends, are in [0, num_pages)."""
    starts = torch.arange(page_table.shape[1], device=page_table.device) * page_size
    used = starts < seq_lens.unsqueeze(1)
    require_range("page_table", page_table.where(used, 0), 0, num_pages, "a page")


def require_page_table_covers(seq_lens: torch.Tensor, pages: int, page_size: int) -> None:
    """Demand that `pages` entries of `page_size` tokens reach to the end of the longest sequence."""
    longest = int(seq_lens.max()) if seq_lens.numel() else 0
    if pages * page_size < longest:
        raise ValueError(
            f"page_table has {pages} pages of {page_size} tokens, which end at {pages * page_size}; "
            f"seq_lens has a sequence of {longest}"
        )


def _dtype(dtype):
    return str(dtype).removeprefix("torch.")
