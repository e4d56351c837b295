"""Generated code of both sides -> the kernels that changed, as coloured lines of a diff.

Decides what a kernel is in Inductor's output, which two belong together, and what
is only noise in it (paths, comments). Knows no HTML: a token is a class and a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from pygments.lexer import Lexer
from pygments.lexers.c_cpp import CppLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

_KERNEL = re.compile(r"^(\w+) = async_compile\.(\w+)\(.*?'''\n(.*?)^'''[^\n]*\n?", re.MULTILINE | re.DOTALL)
_CONTEXT = 3
WRAPPER = "wrapper"
# The first that holds names the colour; the page has a colour for each of these letters.
_CLASSES = ((Comment, "c"), (Keyword, "k"), (String, "s"), (Number, "m"), (Name.Decorator, "f"), (Name.Function, "f"))

Tokens = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel's source, or what calls them all (`WRAPPER`)."""

    name: str
    text: str
    is_python: bool = True


@dataclass(frozen=True)
class DiffLine:
    """`sign` is "-", "+", " " or "@" (lines left out); the numbers are None on the side that has no such line."""

    sign: str
    old: int | None
    new: int | None
    tokens: Tokens


@dataclass(frozen=True, kw_only=True)
class KernelDiff:
    """Two kernels that belong together; one of the names is None where the other side has none."""

    old: str | None
    new: str | None
    lines: tuple[DiffLine, ...]


def kernels(code: str) -> list[Kernel]:
    """The kernels in the order of their definition, and the wrapper last."""
    found = [
        Kernel(name=name, text=_from_decorator(text), is_python=form == "triton")
        for name, form, text in _KERNEL.findall(code)
    ]
    rest = [line for line in _KERNEL.sub("", code).splitlines() if line.strip() and not line.startswith("#")]
    return [*found, Kernel(name=WRAPPER, text="\n".join(rest))]


def _from_decorator(text: str) -> str:
    """Without the imports, which are the same in each."""
    at = text.find("\n@")
    return (text[at + 1 :] if at >= 0 else text).strip("\n")


def compare_code(unpatched: str, patched: str) -> tuple[int, list[KernelDiff]]:
    """How many kernels are equal, and the diffs of the others. Names are numbered, so they do not count."""
    old, new = kernels(unpatched), kernels(patched)
    matcher = SequenceMatcher(None, [_unnamed(one) for one in old], [_unnamed(one) for one in new], autojunk=False)
    equal, diffs = 0, []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            equal += sum(kernel.name != WRAPPER for kernel in old[a:b])
        else:
            diffs += [_diff(before, after) for before, after in _pairs(old[a:b], new[c:d])]
    return equal, diffs


def _unnamed(kernel: Kernel) -> str:
    return kernel.text.replace(kernel.name, "")


def _pairs(old: Sequence[Kernel], new: Sequence[Kernel]) -> Iterator[tuple[Kernel | None, Kernel | None]]:
    """In order; the wrapper only with the wrapper."""
    kept = [[kernel for kernel in side if kernel.name != WRAPPER] for side in (old, new)]
    yield from zip_longest(*kept)
    rest = [next((kernel for kernel in side if kernel.name == WRAPPER), None) for side in (old, new)]
    if any(rest):
        yield rest[0], rest[1]


def _diff(old: Kernel | None, new: Kernel | None) -> KernelDiff:
    before, after = ([] if one is None else coloured(one) for one in (old, new))
    lines: list[DiffLine] = []
    for number, block in enumerate(SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT)):
        if number:
            lines.append(DiffLine("@", None, None, (("", "..."),)))
        for kind, a, b, c, d in block:
            if kind == "equal":
                lines += [DiffLine(" ", a + n + 1, c + n + 1, before[a + n]) for n in range(b - a)]
                continue
            lines += [DiffLine("-", n + 1, None, before[n]) for n in range(a, b)]
            lines += [DiffLine("+", None, n + 1, after[n]) for n in range(c, d)]
    return KernelDiff(old=old.name if old else None, new=new.name if new else None, lines=tuple(lines))


def coloured(kernel: Kernel) -> list[Tokens]:
    """The lines of a kernel as (class, text), neighbours of one class joined."""
    lexer: Lexer = PythonLexer() if kernel.is_python else CppLexer()
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, text in lexer.get_tokens(kernel.text):
        letter = _class_of(kind)
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part and lines[-1] and lines[-1][-1][0] == letter:
                lines[-1][-1] = letter, lines[-1][-1][1] + part
            elif part:
                lines[-1].append((letter, part))
    while lines and not lines[-1]:
        lines.pop()  # a lexer ends every text with a line end of its own
    return [tuple(line) for line in lines]


def _class_of(kind: _TokenType) -> str:
    return next((letter for family, letter in _CLASSES if kind in family), "")
