"""Legal CUDA that the CPU build lacks, and host code in a kernel's source: said in words a learner understands."""

import re

from .faults import as_in_the_project
from .scan import blank_comments
from .source import Source

# What the host compilers say of a header they can't find, with the place before it.
_MISSING = re.compile(
    r"^(.+?:\d+):\d+: fatal error: (?:'([^']+)' file not found|(\S+): No such file or directory)", re.M
)
_CUDA_HEADER = re.compile(
    r"(cub|thrust|cuda|nv|cooperative_groups|cute|cutlass)/|mma\.h|cu(da|rand|blas|fft|sparse|solver|dnn|Complex)\w*\.h"
)
_ASSERTION = re.compile(r"static assertion failed.*?: \"?(the CPU build [^\n\"]*)")  # of the headers in include/
_ERROR = re.compile(r"^(?P<place>.+?):(?P<line>\d+):\d+: error: (?P<text>.*)$", re.MULTILINE)
_HOST_CALL = re.compile(
    r"\b(cuda[A-Z]\w*|cu[A-Z][a-z]\w*)\b.* (?:was not declared|undeclared|does not name)|"
    r"undeclared identifier '(cuda[A-Z]\w*)'|unknown type name '(cuda[A-Z]\w*)'"
)


def explain(message: str, source: Source) -> str:
    """A compiler's message about a Source, led by what it means where that is known."""
    return "\n".join((*_reasons(message, source), message))


def _reasons(message, source):
    name = as_in_the_project(source.name)  # as the message has it
    for missing in _MISSING.finditer(message):
        header = missing[2] or missing[3]
        if _CUDA_HEADER.match(header):
            yield f"{missing[1]}: error: the CPU build lacks <{header}>: use a GPU, or plain CUDA C++ instead"
    refused = _ASSERTION.search(message)
    if refused:
        use = re.search(rf"^({re.escape(name)}:\d+):\d+:", message, re.MULTILINE)
        yield f"{use[1] if use else name}: error: {refused[1]}"
    lines, told = blank_comments(source.text).splitlines(), False
    for error in _ERROR.finditer(message):
        place, number = f"{error['place']}:{error['line']}", int(error["line"])
        deleted = re.search(r"deleted function .*?\b(atomic\w+)", error["text"])
        if deleted:
            yield f"{place}: error: CUDA has no {deleted[1]} for this type"
        line = lines[number - 1] if error["place"] == name and number <= len(lines) else ""
        call = _HOST_CALL.search(error["text"])
        what = "<<<...>>>" if "<<<" in line else next(filter(None, call.groups()), None) if call else None
        if what and not told:
            told = True
            yield (
                f"{place}: error: {what} is host code, and this source is for the device alone: "
                f"launch(kernel, grid, block, args) does in Python what main() and <<<...>>> do"
            )
