"""`__shared__` declarations for a host compiler: references to memory that the scheduler hands out."""

import re

from .faults import CompileError
from .scan import blank_comments, blank_directives, directives, place, scopes, split_at_commas

_QUALIFIERS = r"(?:extern|static|volatile|alignas\s*\([^)]*\)|__align__\s*\([^)]*\))"
_ALIAS = re.compile(rf"\s*#\s*define\s+(\w+)\s+((?:{_QUALIFIERS}\s+)*__shared__(?:\s+{_QUALIFIERS})*)\s*$")
_DECLARATOR = re.compile(r"^(?P<type>.*?[\s*&>}])?(?P<name>[A-Za-z_]\w*)\s*(?P<extent>(?:\[[^\]]*\]\s*)*)$", re.DOTALL)


class _Declaration:
    """One `__shared__` statement: where it stands, and the C++ that takes its place."""

    def __init__(self, text, clean, mark, name):
        self.start = max(clean.rfind(character, 0, mark) for character in ";{}") + 1
        self.start += len(re.match(r"(?:\s*\w+\s*:(?!:))?\s*", clean[self.start :])[0])  # a label, blanks
        self.place = place(text, mark, name)
        depth, self.end = 0, mark
        while self.end < len(clean) and (depth or clean[self.end] != ";"):
            depth += (clean[self.end] in "({[") - (clean[self.end] in ")}]")
            self.end += 1
        words = clean[self.start : self.end].replace("__shared__", "").replace("alignas", "__align__")
        self.is_dynamic = re.search(r"\bextern\b", words) is not None
        words = re.sub(r"\b(?:extern|static)\b", "", words).strip()
        self.alignment = " ".join(re.findall(r"__align__\s*\([^)]*\)", re.match(rf"(?:{_QUALIFIERS}\s*)*", words)[0]))
        words = re.sub(r"^((?:volatile\s+)?)(?:__align__\s*\([^)]*\)\s*)+", r"\1", words)
        self.base, self.variables = None, []
        for part in split_at_commas(words):
            found = _DECLARATOR.match(part.strip())
            if not found or "=" in part.rpartition("}")[2] or not (self.base or found["type"]):
                self._refuse("this __shared__ declaration is too involved", "give its type a name, and no initialiser")
            variable = part.strip() if self.base else part.strip()[len(found["type"]) :]
            stars = re.search(r"[\s*]*$", found["type"])[0].strip() if found["type"] else ""
            self.base = self.base or found["type"].strip().rstrip("* \n")
            self.variables.append(
                (found["name"], stars, variable[variable.index(found["name"]) + len(found["name"]) :])
            )

    def _refuse(self, what, instead):
        raise CompileError(f"{self.place}: {what} for the CPU build: {instead}")

    def _types(self):
        first = self.variables[0][0]
        out = [f"typedef {self.base} {first}__base;"]
        for name, stars, extent in self.variables:
            if self.is_dynamic:  # the variable will be a pointer to the first element
                extent = re.sub(r"^\s*\[[^\]]*\]", "", extent)
            out.append(f"typedef {first}__base {stars} {name}__type{extent} {self.alignment};")
        return out

    def _memory(self, name):
        if self.is_dynamic:
            return f"static_cast<{name}__type*>(cuda_host::dynamic_shared())"
        return (
            f"*static_cast<{name}__type*>(cuda_host::shared_slot({name}__slot, sizeof({name}__type), "
            f"alignof({name}__type)))"
        )

    def _slots(self):
        return (
            []
            if self.is_dynamic
            else [f'static cuda_host::SharedSlot {name}__slot = {{"{name}"}};' for name, _, _ in self.variables]
        )

    def _declarator(self, name):
        return f"{name}__type{'*' if self.is_dynamic else '&'}"

    def in_function(self) -> str:
        """Slots, and references to their places in the block that runs now."""
        uses = [f"{self._declarator(name)} {name} = {self._memory(name)};" for name, _, _ in self.variables]
        return " ".join((*self._types(), *self._slots(), *uses))

    def in_file(self) -> str:
        """Slots, and functions that give their places."""
        uses = [
            f"static inline {self._declarator(name)} {name}__place() {{ return {self._memory(name)}; }}"
            for name, _, _ in self.variables
        ]
        return " ".join((*self._types(), *self._slots(), *uses))


def _expand_aliases(text, name):
    """The text with macros such as `#define SHARED __shared__` written out. Refuses macros that declare variables."""
    clean = blank_comments(text)
    for directive in directives(clean):
        if "__shared__" not in directive[0]:
            continue
        alias = _ALIAS.match(directive[0].replace("\\\n", " "))
        if not alias:
            where = place(text, directive.start(), name)
            raise CompileError(
                f"{where}: a macro that declares a __shared__ variable is too involved for the CPU build: "
                f"write the declaration out (#define SHARED __shared__ is fine)"
            )
        code = blank_directives(clean)
        for use in reversed(list(re.finditer(rf"\b{alias[1]}\b", code))):
            text = text[: use.start()] + alias[2] + text[use.end() :]
        text = text[: directive.start()] + "\n" * directive[0].count("\n") + text[directive.end() :]
        return _expand_aliases(text, name)
    return text


def rewrite_shared(text: str, name: str) -> str:
    """Make each `__shared__` declaration a reference to memory that the scheduler hands out, line for line.

    `__shared__ float tile[8][9];` becomes a static slot, which every instantiation of a template has for itself, and
    a reference `float (&tile)[8][9]` to the slot's place in the block that runs now. Of a declaration outside of
    functions, each function that names the variable gets such a reference.
    """
    text = _expand_aliases(text, name)
    clean = blank_comments(text)
    if "__shared__" not in clean:
        return text
    code = blank_directives(clean)
    found = scopes(clean)
    functions = [scope for scope in found if scope.kind == "function"]
    changes, in_functions, in_file = [], [], []
    for mark in re.finditer(r"\b__shared__\b", code):
        if changes and mark.start() < changes[-1][1]:
            continue
        declaration = _Declaration(text, code, mark.start(), name)
        inside = not found or any(scope.start <= mark.start() < scope.end for scope in functions)
        (in_functions if inside else in_file).append(declaration)
        new = declaration.in_function() if inside else declaration.in_file()
        old = text[declaration.start : declaration.end + 1]
        changes.append((declaration.start, declaration.end + 1, re.sub(r"\s*\n\s*", " ", new) + "\n" * old.count("\n")))
    for scope in functions if in_file else ():
        changes.append((scope.start, scope.start, _references(code, scope, in_file, in_functions)))
    pieces, end = [], 0
    for start, stop, new in sorted(changes):
        pieces += [text[end:start], new]
        end = stop
    return "".join(pieces) + text[end:]


def _references(code, scope, in_file, in_functions):
    """The references that a function needs: to what it names, and neither takes as a parameter nor declares itself."""
    own = {
        name
        for declaration in in_functions
        if scope.start <= declaration.start < scope.end
        for name, _, _ in declaration.variables
    }
    out = []
    for declaration in in_file:
        for name, _, _ in declaration.variables:
            word = re.compile(rf"\b{name}\b")
            named = declaration.end < scope.start and word.search(code, scope.start, scope.end)
            if named and name not in own and not word.search(code, scope.header, scope.start):
                out.append(f" auto{'' if declaration.is_dynamic else '&'} {name} = {name}__place();")
    return "".join(out)
