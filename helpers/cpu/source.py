"""CUDA C++ to C++: the few places that a header can't express are rewritten, line for line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .faults import CompileError

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_QUALIFIER = r"(?:extern|static|volatile|alignas\s*\([^)]*\)|__align__\s*\([^)]*\))\s+"
_SHARED = re.compile(rf"((?:\b{_QUALIFIER})*)\b__shared__\b\s+([^;]*);")
_DECLARATOR = re.compile(r"^(?P<type>.*?[\s*&>)])?(?P<name>\w+)\s*(?P<extent>(?:\[[^\]]*\]\s*)*)$", re.DOTALL)
_LOCAL_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_KERNEL = re.compile(r"__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:void\s+)?(\w+)\s*\(")


def quoted(text: str | Path) -> str:
    """A string as C++ and its preprocessor read it, such as the path in a #line."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Source:
    """A kernel source as given. name: what reports call it."""

    name: str
    text: str
    folder: object  # of its own includes, a Path, or None


def blank_comments(text: str) -> str:
    """The text with comments and strings blanked out, same length, same lines."""
    return _COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def split_at_commas(text: str) -> list[str]:
    """Split at the commas that stand outside every bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


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


def rewrite_shared(text: str, name: str) -> str:
    """Make each `__shared__` declaration a reference to memory that the scheduler hands out.

    `__shared__ float tile[8][9];` becomes a static slot, which every instantiation of a template has for
    itself, and a reference `float (&tile)[8][9]` to the slot's place in the block that runs now.
    """

    def declare(match):
        qualifiers = match[1].replace("static", "").replace("alignas", "__align__")
        dynamic = "extern" in qualifiers
        out, base = [], None
        for part in split_at_commas(match[2]):
            found = _DECLARATOR.match(part.strip())
            if not found or not (base or found["type"]):
                line = text.count("\n", 0, match.start()) + 1
                raise CompileError(
                    f"{name}:{line}: this __shared__ declaration is too involved for the CPU build:"
                    f" give its type a name first, and no initialiser"
                )
            base = base or qualifiers.replace("extern", "") + found["type"].strip().replace("alignas", "__align__")
            variable, extent = found["name"], found["extent"].strip()
            if dynamic:
                out.append(
                    f"typedef {base} {variable}__type; {variable}__type* {variable} = "
                    f"static_cast<{variable}__type*>(cuda_host::dynamic_shared());"
                )
            else:
                out.append(
                    f"typedef {base} {variable}__type {extent}; "
                    f'static cuda_host::SharedSlot {variable}__slot = {{"{variable}"}}; '
                    f"{variable}__type& {variable} = *static_cast<{variable}__type*>(cuda_host::shared_slot("
                    f"{variable}__slot, sizeof({variable}__type), alignof({variable}__type)));"
                )
        joined = re.sub(r"\s*\n\s*", " ", " ".join(out))
        return joined + "\n" * match[0].count("\n")

    pieces, end = [], 0
    for match in _SHARED.finditer(blank_comments(text)):
        pieces += [text[end : match.start()], declare(match)]
        end = match.end()
    return "".join(pieces) + text[end:]


def plain_kernels(text: str) -> list[str]:
    """Names of the kernels that need no name expression: those declared extern "C"."""
    clean = blank_comments(text)
    return [match[1] for match in _KERNEL.finditer(clean) if re.search(r"\bextern\s+$", clean[: match.start()])]


def parameter_names(text: str, expression: str) -> list[str]:
    """Names of the parameters of the kernel that a name expression like "ns::copy<float, 4>" means, or []."""
    kernel = re.sub(r"<.*", "", expression, flags=re.DOTALL).split("::")[-1].strip()
    clean = blank_comments(text)
    for match in _KERNEL.finditer(clean):
        if match[1] != kernel:
            continue
        depth, end = 1, match.end()
        while depth and end < len(clean):
            depth += (clean[end] == "(") - (clean[end] == ")")
            end += 1
        parameters = split_at_commas(clean[match.end() : end - 1])
        return [
            re.findall(r"\w+", re.sub(r"\[.*?\]", "", parameter))[-1] for parameter in parameters if parameter.strip()
        ]
    return []


def to_cpp(source: Source, name_expressions: Sequence[str]) -> str:
    """The translation unit for the host compiler: the rewritten source and the list of its kernels."""
    body = rewrite_shared(inline_includes(source), source.name)
    entries = ",\n".join(f'    cuda_host::Instance<&{name}>::describe("{name}")' for name in name_expressions)
    return (
        f"#line 1 {quoted(source.name)}\n{body}\n"
        f'#line 1 "name_expressions"\n#include "cuda_host/entry.h"\n'
        f"CUDA_HOST_EXPORT const cuda_host::Kernel cuda_host_kernels[] = {{\n{entries}\n}};\n"
        f"CUDA_HOST_EXPORT const int cuda_host_kernel_count = {len(name_expressions)};\n"
    )
