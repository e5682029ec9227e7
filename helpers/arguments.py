"""Checks that every host function makes on its arguments before it launches anything.

Each raises `TypeError` or `ValueError` with the argument's name, what it was, and what it should be.
"""

import os

import torch


def check_values() -> bool:
    """Whether to look at the *contents* of index tensors too (environment variable KERNEL_CHECK, default 1).

    On a GPU this waits for the tensor, so timings switch it off, and it is off while a CUDA graph is captured.
    """
    if os.environ.get("KERNEL_CHECK", "1") == "0":
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def require_tensor(name, value, *, dtypes, ndim, device=None, shape=None):
    """Demand a torch tensor of one of `dtypes`, with `ndim` dimensions, the last one contiguous.

    `shape` entries that are None may be anything. Rows may be strided views.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; it should be a torch tensor")
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


def require_contiguous(name, value):
    if not value.is_contiguous():
        raise ValueError(f"{name} has strides {list(value.stride())}; it should be contiguous")


def require_int(name, value, low, high):
    """Demand a Python int with low <= value <= high."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}; it should be an int")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it should be between {low} and {high}")


def require_power_of_two(name, value, high):
    require_int(name, value, 1, high)
    if value & (value - 1):
        raise ValueError(f"{name} is {value}; it should be a power of two")


def require_one_of(name, value, allowed):
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it should be {' or '.join(map(repr, allowed))}")


def require_range(name, values, low, high, meaning):
    """Demand low <= every element < high. Looks at the contents: call it only under `check_values()`."""
    if values.numel() == 0:
        return
    outside = (values < low) | (values >= high)
    if bool(outside.any()):
        where = int(outside.flatten().nonzero()[0])
        raise ValueError(
            f"{name} holds {int(values.flatten()[where])} at position {where}; {meaning} should be in [{low}, {high})"
        )


def require_page_table_covers(seq_lens, pages, page_size):
    """Demand that `pages` entries of `page_size` tokens reach to the end of the longest sequence."""
    longest = int(seq_lens.max()) if seq_lens.numel() else 0
    if pages * page_size < longest:
        raise ValueError(
            f"page_table has {pages} pages of {page_size} tokens, which end at {pages * page_size}; "
            f"seq_lens has a sequence of {longest}"
        )


def _dtype(dtype):
    return str(dtype).removeprefix("torch.")
