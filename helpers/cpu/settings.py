"""How kernels run on the CPU: the mode, the order of the threads, what shared memory holds at first."""

import contextlib
import contextvars
import os
from collections.abc import Iterator
from dataclasses import dataclass

MODES = ("fast", "checked", "msan", "tsan")
ORDERS = ("forward", "reverse", "random")
SHARED = ("poison", "keep")


@dataclass(frozen=True)
class Settings:
    mode: str
    order: str = "forward"
    seed: int = 0


_settings = contextvars.ContextVar("settings", default=None)
_shared = contextvars.ContextVar("shared", default="poison")


def _one_of(what, value, allowed):
    if value not in allowed:
        raise ValueError(f"{what} is {value!r}, expected one of {', '.join(allowed)}")


def current() -> Settings:
    """The Settings of the next launch. Outside `mode(...)`, the variable KERNEL_MODE gives the mode."""
    settings = _settings.get()
    if settings is None:
        name = os.environ.get("KERNEL_MODE", "fast")
        _one_of("KERNEL_MODE", name, MODES)
        settings = Settings(name)
    return settings


def shared_is_kept() -> bool:
    """Whether a block finds in its shared memory what the one before left there."""
    return _shared.get() == "keep"


@contextlib.contextmanager
def mode(name: str, order: str = "forward", seed: int = 0) -> Iterator[None]:
    """Run the launches inside the block in a mode.

    name: "fast" (in this process), or in a child process: "checked" (AddressSanitizer and
    UndefinedBehaviorSanitizer), "msan" (MemorySanitizer), "tsan" (ThreadSanitizer).
    order: "forward", "reverse" or "random" (drawn from `seed`), of blocks, warps and lanes.
    """
    _one_of("mode", name, MODES)
    _one_of("order", order, ORDERS)
    token = _settings.set(Settings(name, order, seed))
    try:
        yield
    finally:
        _settings.reset(token)


@contextlib.contextmanager
def shared_memory(content: str) -> Iterator[None]:
    """What a block finds in its shared memory, for the launches inside the `with` block.

    "poison": bytes 0xCB. "keep": what the previous block left there, be it of an earlier launch or of
    another kernel, as on a GPU's multiprocessor.
    """
    _one_of("shared memory", content, SHARED)
    token = _shared.set(content)
    try:
        yield
    finally:
        _shared.reset(token)
