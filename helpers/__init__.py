"""What the lessons and the tests import."""

from .kernel import compile_cuda, compile_to_cubin, device, launch

__all__ = ["compile_cuda", "compile_to_cubin", "device", "launch"]
