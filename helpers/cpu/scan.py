"""Where things stand in a CUDA source: comments, scopes, kernels. Positions are those of the text as given."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<end>[^\s()\\]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.[^\n']*|[^'\\\n])'""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_STEP = re.compile(rf"(?P<directive>{_DIRECTIVE.pattern})|[{{}};]", re.MULTILINE)
_ATTRIBUTE = r"__launch_bounds__|__attribute__|__align__|alignas|__cluster_dims__|__block_size__|__maxnreg__|decltype"


def blank_comments(text: str) -> str:
    """The text with comments and literals blanked out, same length, same lines."""
    return _COMMENT_OR_LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def blank_directives(clean: str) -> str:
    """The text without its preprocessor lines, same length, same lines."""
    return _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), clean)


def directives(clean: str) -> Iterator[re.Match]:
    """The preprocessor lines as matches, each with the lines that continue it."""
    return _DIRECTIVE.finditer(clean)


def place(text: str, position: int, name: str) -> str:
    """ "file:line" of a position, in a text whose own file is `name` and whose #line directives tell of others."""
    marks = list(re.finditer(r'^#line (\d+) "([^"\n]*)"\n', text[:position], re.MULTILINE))
    if not marks:
        return f"{name}:{text.count(chr(10), 0, position) + 1}"
    return f"{marks[-1][2]}:{int(marks[-1][1]) + text.count(chr(10), marks[-1].end(), position)}"


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


def closing(clean: str, start: int, pair: str = "()") -> int:
    """Position after the bracket that closes the one opened just before `start`."""
    depth, end = 1, start
    while depth and end < len(clean):
        depth += (clean[end] == pair[0]) - (clean[end] == pair[1])
        end += 1
    return end


@dataclass(frozen=True)
class Scope:
    """What a pair of braces holds. kind: "namespace", 'extern "C"', "class", "function" or "other"."""

    kind: str
    header: int  # where the text that introduces it starts
    start: int  # after the opening brace
    end: int  # before the closing one


def _kind(header):
    header = re.sub(r"^\s*template\s*<[^;{}]*>\s*(?=[\w_:])", "", header).strip()
    if header == "extern":  # its "C" is a literal, and blank
        return 'extern "C"'
    if re.search(r"\bnamespace\b[^()]*$", header):
        return "namespace"
    if re.match(r"(?:\w+\s+)*?(?:struct|class|union|enum)\b", header) and not re.search(r"\)\s*(?:const)?$", header):
        return "class"
    is_call = re.search(r"\)[\w\s:>&*,<\-().]*$", header)
    return "function" if is_call and "=" not in re.sub(r"\boperator\W+|<[^<>]*>|\([^()]*\)", "", header) else "other"


def scopes(clean: str) -> list[Scope]:
    """The Scopes of a text without comments, but those inside functions; [] when its braces don't match."""
    found, open_scopes, branches, start = [], [], [], 0
    for step in _STEP.finditer(clean):
        if step["directive"]:
            word = re.match(r"\s*#\s*(\w*)", step[0])[1]
            if word in ("if", "ifdef", "ifndef"):
                branches.append(list(open_scopes))
            elif word in ("else", "elif") and branches:
                open_scopes = list(branches[-1])  # each branch starts where the first one did
            elif word == "endif" and branches:
                branches.pop()
            if not open_scopes or open_scopes[-1][0] != "inner":
                start = step.end()
            continue
        if step[0] == "{":
            inside = any(kind in ("function", "inner", "other") for kind, _, _ in open_scopes)
            open_scopes.append(("inner" if inside else _kind(clean[start : step.start()]), start, step.end()))
        elif step[0] == "}":
            if not open_scopes:
                return []
            kind, header, body = open_scopes.pop()
            if kind != "inner":
                found.append(Scope(kind, header, body, step.start()))
        start = step.end()
    return [] if open_scopes else found


@dataclass(frozen=True)
class KernelText:
    """A `__global__` function as written. parameters: their text. is_plain: declared extern "C"."""

    name: str
    line: int
    is_template: bool
    is_plain: bool
    parameters: tuple


def _last_call(header, start):
    """The match of the last `name(` outside of brackets: before it stand attributes, and macros for them."""
    last, call = None, re.compile(r"\b(\w+)\s*\(").search(header, start)
    while call:
        last = last if re.fullmatch(_ATTRIBUTE, call[1]) else call
        call = call.re.search(header, closing(header, call.end()))
    return last


def kernels(text: str) -> list[KernelText]:
    """The KernelTexts of a source, one for each declaration and definition."""
    code = blank_directives(blank_comments(text))
    plain_scopes = [scope for scope in scopes(blank_comments(text)) if scope.kind == 'extern "C"']
    found = []
    for mark in re.finditer(r"\b__global__\b", code):
        start = max(code.rfind(character, 0, mark.start()) for character in ";{}") + 1
        end = re.compile(r"[;{]").search(code, mark.end())
        header = code[start : end.start() if end else len(code)]
        call = _last_call(header, mark.end() - start)
        if not call:
            continue
        parameters = header[call.end() : closing(header, call.end()) - 1]
        before = header[: call.start()]
        found.append(
            KernelText(
                call[1],
                text.count("\n", 0, mark.start()) + 1,
                re.search(r"\btemplate\s*<\s*[^>\s]", before) is not None,
                re.search(r"\bextern\b", before) is not None
                or any(scope.start <= start < scope.end for scope in plain_scopes),
                tuple(part.strip() for part in split_at_commas(parameters) if part.strip()),
            )
        )
    return found
