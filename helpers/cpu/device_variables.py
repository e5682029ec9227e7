"""`__device__` and `__constant__` variables: a list of them, so that they can be set and outlive a child process."""

import re

from .scan import blank_comments, blank_directives, scopes, split_at_commas

_MARK = re.compile(r"\b__(?:device|constant|managed)__\b")
_ATTRIBUTE = re.compile(r"\b(?:__align__|alignas|__attribute__|decltype)\s*\((?:[^()]|\([^()]*\))*\)")
_OTHER = re.compile(r"\b(?:template|extern|using|typedef|struct)\b")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")


def _statement_end(code, start):
    """Position of the `;` that ends a declaration, or of the `{` of a function's body."""
    depth = 0
    for position in range(start, len(code)):
        character = code[position]
        if depth == 0 and (character == ";" or (character == "{" and code[start:position].rstrip().endswith(")"))):
            return position
        depth += (character in "({[") - (character in ")}]")
    return len(code)


def _names(declaration):
    """The variables that a declaration without its attributes defines; [] when it declares a function."""
    names = []
    for part in split_at_commas(declaration):
        head = re.split(r"[={]", part, maxsplit=1)[0].strip()
        name = _NAME.search(head)
        if "(" in head or not name:
            return []
        names.append(name[1])
    return names


def list_variables(text: str) -> str:
    """The text with an entry of cuda_host::DeviceVariable behind each variable, on the same line.

    Left out: variable templates, and declarations that say `extern`.
    """
    code = blank_directives(blank_comments(text))
    found = scopes(blank_comments(text))
    spaces = [scope for scope in found if scope.kind in ("namespace", 'extern "C"')]
    inner = [scope for scope in found if scope not in spaces]
    pieces, end = [], 0
    for mark in _MARK.finditer(code):
        if mark.start() < end or any(scope.start <= mark.start() < scope.end for scope in inner):
            continue
        start = max(code.rfind(character, 0, mark.start()) for character in ";{}") + 1
        stop = _statement_end(code, start)
        words = _MARK.sub("", _ATTRIBUTE.sub("", code[start:stop]))
        names = _names(words)
        if not names or code[stop : stop + 1] != ";" or _OTHER.search(words):
            continue
        around = [code[scope.header : scope.start - 1] for scope in spaces if scope.start <= start < scope.end]
        named = filter(None, (re.search(r"namespace\s+([\w:]+)\s*$", header) for header in around))
        prefix = "".join(f"{name[1]}::" for name in reversed(list(named)))  # the innermost namespace ends first
        pieces.append(text[end : stop + 1])
        pieces += [f' static cuda_host::DeviceVariable {name}__variable("{prefix}{name}", {name});' for name in names]
        end = stop + 1
    return "".join(pieces) + text[end:]
