"""CUDA C++ to C++: the few places that a header can't express are rewritten, line for line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .device_variables import list_variables
from .faults import CompileError
from .scan import blank_comments, kernels
from .shared_declarations import rewrite_shared

_LOCAL_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)


def quoted(text: str | Path) -> str:
    """A string as C++ and its preprocessor read it, such as the path in a #line."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Source:
    """A kernel source as given. name: what reports call it."""

    name: str
    text: str
    folder: object  # of its own includes, a Path, or None


def inline_includes(source: Source, seen: set[Path] | None = None) -> str:
    """Put the text of each `#include "file"` that lies beside the source in its place."""
    seen = set() if seen is None else seen

    def include(match):
        path = source.folder / match[1] if source.folder else None
        if path is None or not path.is_file():
            return match[0]
        if path in seen:
            return ""
        seen.add(path)
        text = inline_includes(Source(str(path), path.read_text(), path.parent), seen)
        line = source.text.count("\n", 0, match.start()) + 2
        return f"#line 1 {quoted(path)}\n{text}\n#line {line} {quoted(source.name)}"

    return _LOCAL_INCLUDE.sub(include, source.text).replace("#pragma once", "")


def plain_kernels(text: str) -> list[str]:
    """Names of the kernels that need no name expression: those declared extern "C"."""
    return list(dict.fromkeys(kernel.name for kernel in kernels(text) if kernel.is_plain))


def _named(text, expression):
    """The KernelTexts that a name expression like "ns::copy<float, 4>" can mean."""
    name = re.sub(r"<.*", "", expression, flags=re.DOTALL).split("::")[-1].strip()
    return [kernel for kernel in kernels(text) if kernel.name == name]


def parameter_names(text: str, expression: str) -> list[str]:
    """Names of the parameters of the kernel that a name expression like "ns::copy<float, 4>" means, or []."""
    for kernel in _named(text, expression):
        return [re.findall(r"\w+", re.sub(r"\[.*?\]|=.*", "", parameter))[-1] for parameter in kernel.parameters]
    return []


def _check_names(source, name_expressions):
    """A template without its arguments is no kernel yet."""
    for expression in name_expressions:
        named = _named(source.text, expression)
        if named and "<" not in expression and all(kernel.is_template for kernel in named):
            raise CompileError(
                f"{source.name}:{named[0].line}: {named[0].name} is a template, so its name expression has to give its "
                f'arguments, as in "{expression}<float>" ("{expression}<>" when all of them have defaults)'
            )


def to_cpp(source: Source, name_expressions: Sequence[str]) -> str:
    """The translation unit for the host compiler: the rewritten source and the list of its kernels."""
    _check_names(source, name_expressions)
    body = list_variables(rewrite_shared(inline_includes(source), source.name))
    for word in reversed(list(re.finditer(r"\b__asm(?:__)?\b", blank_comments(body)))):
        body = body[: word.start()] + "asm" + body[word.end() :]  # the spelling that cuda_host/refused.h knows
    entries = ",\n".join(f'    cuda_host::Instance<&{name}>::describe("{name}")' for name in name_expressions)
    return (
        f"#line 1 {quoted(source.name)}\n{body}\n"
        f'#line 1 "name_expressions"\n#include "cuda_host/entry.h"\n'
        f"CUDA_HOST_EXPORT const cuda_host::Kernel cuda_host_kernels[] = {{\n{entries}\n}};\n"
        f"CUDA_HOST_EXPORT const int cuda_host_kernel_count = {len(name_expressions)};\n"
        f"CUDA_HOST_EXPORT const cuda_host::DeviceVariable*& cuda_host_variables = cuda_host::DeviceVariable::first;\n"
    )
