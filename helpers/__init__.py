"""What the lessons and the tests import."""

from .kernel import compile_cuda, compile_to_cubin, device, device_variable, launch

__all__ = ["compile_cuda", "compile_to_cubin", "device", "device_variable", "launch"]
