"""Compare generated code without and with the patch: the changed kernels as highlighted lines of a
diff, and the calls of kernels next to each other, with the buffers that each reads and writes.

Kernels are compared without numbered names and imports, the wrapper without comments. The calls
show a fusion that moved, and a value that is stored or computed again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, starmap, zip_longest
from keyword import kwlist
from operator import itemgetter

from patchgate.model.records import record
from patchgate.model.text import counted

# NAME = async_compile.triton('NAME', '''SOURCE''', ...), as Inductor writes it.
_KERNEL = re.compile(
    r"^(\w+) = async_compile\.(\w+)\(.*?'''\n(.*?)^'''[^\n]*\n?", re.MULTILINE | re.DOTALL
)
_CONTEXT = 3
WRAPPER = "wrapper"
# Patterns for generated code only. The name of the matching group is the CSS class; report.css has
# a colour for each letter.
_STRING = r"""(?P<s>\"""(?s:.*?)\"""|'''(?s:.*?)'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_NUMBER = r"(?P<m>\b(?:0[xX][\da-fA-F]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?)[a-zA-Z]*)"
_PYTHON = re.compile(
    rf"(?P<c>#[^\n]*)|{_STRING}|(?P<f>@[\w.]+|(?<=\bdef )\w+)"
    rf"|(?P<k>\b(?:{'|'.join(kwlist)})\b)|{_NUMBER}"
)
_CPP_WORDS = """auto bool break case char class const constexpr continue default do double else
extern false float for if inline int long namespace nullptr return short signed sizeof static struct
switch template true typedef typename unsigned using void volatile while"""
_CPP = re.compile(
    rf"(?P<c>//[^\n]*|/\*(?s:.*?)\*/|^[ \t]*#[^\n]*)|{_STRING}"
    rf"|(?P<k>\b(?:{'|'.join(_CPP_WORDS.split())})\b)|{_NUMBER}",
    re.MULTILINE,
)

# Two lines that are less alike are not compared word by word.
_ALIKE = 0.5
# (CSS class, text) of each piece of a line. "" is no class; "x" marks text that only one of two
# compared lines has.
Tokens = tuple[tuple[str, str], ...]


@record
class Kernel:
    """The source of one kernel, or the code that calls all kernels (`WRAPPER`)."""

    name: str
    text: str
    is_python: bool = True


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff."""

    sign: str  #: "-", "+", " ", or "@" where lines are left out
    old: (
        int | None
    )  #: the line's number on the unpatched side; None where that side has no such line
    new: int | None  #: the same on the patched side
    tokens: Tokens


@record
class KernelDiff:
    """The diff of two kernels that belong together."""

    old: str | None  #: name of the unpatched one; None where the patched one is new
    new: str | None  #: name of the patched one; None where it is gone
    lines: tuple[DiffLine, ...]


def compare_code(unpatched: str, patched: str) -> tuple[int, list[KernelDiff]]:
    """The number of equal kernels, and the diffs of the others and of the wrapper."""
    old, new = split_kernels(unpatched), split_kernels(patched)
    old_texts, new_texts = (
        [kernel.text.replace(kernel.name, "") for kernel in side] for side in (old, new)
    )
    equal, diffs = 0, list[KernelDiff]()
    for kind, a, b, c, d in SequenceMatcher(
        None, old_texts, new_texts, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            equal += sum(kernel.name != WRAPPER for kernel in old[a:b])
            continue
        for of_wrapper in (False, True):  # the wrapper is compared with the wrapper only
            sides = (
                [kernel for kernel in side if (kernel.name == WRAPPER) is of_wrapper]
                for side in (old[a:b], new[c:d])
            )
            diffs += starmap(_diff, zip_longest(*sides))
    return equal, diffs


def split_kernels(code: str) -> list[Kernel]:
    """The kernels in the order of their definition, and the wrapper last."""
    kernels = []
    for name, language, text in _KERNEL.findall(code):
        decorator = text.find("\n@") + 1  # the text before it is imports, the same in each
        kernels.append(
            Kernel(name=name, text=text[decorator:].strip("\n"), is_python=language == "triton")
        )
    rest = [
        line
        for line in _KERNEL.sub("", code).splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [*kernels, Kernel(name=WRAPPER, text="\n".join(rest))]


def _diff(old: Kernel | None, new: Kernel | None) -> KernelDiff:
    before, after = ([] if kernel is None else highlight(kernel) for kernel in (old, new))
    lines: list[DiffLine] = []
    for number, block in enumerate(
        SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT)
    ):
        if number:
            lines.append(DiffLine("@", None, None, (("", "..."),)))
        for kind, a, b, c, d in block:
            if kind == "equal":
                lines += [DiffLine(" ", a + n + 1, c + n + 1, before[a + n]) for n in range(b - a)]
                continue
            for left, right in zip(range(a, b), range(c, d), strict=False):
                before[left], after[right] = _marked(before[left], after[right])
            lines += [DiffLine("-", n + 1, None, before[n]) for n in range(a, b)]
            lines += [DiffLine("+", None, n + 1, after[n]) for n in range(c, d)]
    return KernelDiff(
        old=old.name if old else None, new=new.name if new else None, lines=tuple(lines)
    )


def _marked(old: Tokens, new: Tokens) -> tuple[Tokens, Tokens]:
    """Return two lines with marks on the words that only one of them has."""
    sides = [
        [(kind, word) for kind, text in line for word in re.findall(r"\w+|\W", text)]
        for line in (old, new)
    ]
    matcher = SequenceMatcher(None, sides[0], sides[1], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return old, new
    for change, a, b, c, d in matcher.get_opcodes():
        for side, first, last in ((sides[0], a, b), (sides[1], c, d)):
            if change != "equal":
                side[first:last] = [(f"{kind} x".strip(), word) for kind, word in side[first:last]]
    before, after = map(_joined, sides)
    return before, after


def _joined(words: Iterable[tuple[str, str]]) -> Tokens:
    """Join neighbouring words of one class."""
    return tuple(
        (kind, "".join(text for _, text in group))
        for kind, group in groupby(words, key=itemgetter(0))
    )


def highlight(kernel: Kernel) -> list[Tokens]:
    """The lines of a kernel as tokens; neighbours of one class are joined."""
    lines: list[list[tuple[str, str]]] = [[]]
    for letter, text in _tokens(kernel):
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((letter, part))
    return [*map(_joined, lines)] if kernel.text else []


def _tokens(kernel: Kernel) -> Iterator[tuple[str, str]]:
    end = 0
    for token in (_PYTHON if kernel.is_python else _CPP).finditer(kernel.text):
        yield "", kernel.text[end : token.start()]
        yield token.lastgroup or "", token.group()
        end = token.end()
    yield "", kernel.text[end:]


# -- calls of kernels

# The parameters of a kernel, which Inductor names by their use: in_ptr0, out_ptr0.
_SIGNATURE = re.compile(r"(?:\bdef (\w+)|^extern \"C\".*?void +\w+)\(([^)]*)\)", re.M | re.S)
_POINTER = re.compile(r"\b(in_out_ptr|in_ptr|out_ptr)\d+")
_CALL = re.compile(r"^ +((?:\w+\.run|cpp_\w+|extern_kernels\.\w+)\(.*\))$", re.M)


@record
class KernelCall:
    """A call of a kernel, and the buffers that it reads and writes."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The name without its number."""
        return re.sub(r"_\d+$", "", self.name)

    @property
    def shape(self) -> tuple[str, int, int]:
        """The kind and both counts of buffers; equal if calls differ only in numbered names."""
        return self.kind, len(self.reads), len(self.writes)


@record
class CallPair:
    """Two calls that belong together, or a call that only one side has. Both fields are empty
    where equal calls are left out.
    """

    old: tuple[str, ...]  #: name, reads and writes without the patch
    new: tuple[str, ...]
    note: str  #: the difference of the two calls; empty if there is none


def compare_calls(unpatched: str, patched: str) -> tuple[CallPair, ...]:
    """The calls that differ, each with its neighbours; empty if none differs."""
    old, new = list(_calls(unpatched)), list(_calls(patched))
    matcher = SequenceMatcher(
        None, [call.shape for call in old], [call.shape for call in new], autojunk=False
    )
    pairs: list[CallPair] = []
    for number, block in enumerate(matcher.get_grouped_opcodes(1)):
        if number or block[0][1]:
            pairs.append(CallPair(old=(), new=(), note="equal calls are left out"))
        for _, a, b, c, d in block:
            pairs += map(_pair, *zip(*_aligned(old[a:b], new[c:d]), strict=True))
    return tuple(pairs)


def _aligned(
    old: Sequence[KernelCall], new: Sequence[KernelCall]
) -> Iterator[tuple[KernelCall | None, KernelCall | None]]:
    """Put calls of the same kind next to each other."""
    before, after = ([call.kind for call in side] for side in (old, new))
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "replace":
            yield from ((call, None) for call in old[a:b])
            yield from ((None, call) for call in new[c:d])
        else:
            yield from zip_longest(old[a:b], new[c:d])


def _pair(old: KernelCall | None, new: KernelCall | None) -> CallPair:
    sides = [
        (call.name, *map(", ".join, (call.reads, call.writes))) if call else ()
        for call in (old, new)
    ]
    return CallPair(old=sides[0], new=sides[1], note=_note(old, new))


def _note(old: KernelCall | None, new: KernelCall | None) -> str:
    if not (old and new):
        return "only with the patch" if new else "only without the patch"
    moved = (
        ("stores", len(new.writes) - len(old.writes)),
        ("reads", len(new.reads) - len(old.reads)),
    )
    return ", ".join(
        f"{verb} {counted(abs(count), 'buffer')} {'more' if count > 0 else 'fewer'}"
        for verb, count in moved
        if count
    )


def _calls(code: str) -> Iterator[KernelCall]:
    roles = {
        name: _POINTER.findall(found[2]) if (found := _SIGNATURE.search(source)) else []
        for name, _, source in _KERNEL.findall(code)
    }
    for line in _CALL.findall(code):
        try:
            call = ast.parse(line, mode="eval").body
        except SyntaxError:
            continue
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func).removesuffix(".run")
        buffers = [_buffer(argument) for argument in call.args]
        if name.startswith("extern_kernels."):
            out = [_buffer(word.value) for word in call.keywords if word.arg == "out"]
            yield KernelCall(name=name, reads=_named(buffers), writes=_named(out))
        elif name in roles:
            own = list(zip(buffers, roles[name], strict=False))
            reads = [buffer for buffer, role in own if role != "out_ptr"]
            writes = [buffer for buffer, role in own if role != "in_ptr"]
            yield KernelCall(name=name, reads=_named(reads), writes=_named(writes))


def _buffer(argument: ast.expr) -> str:
    """The name of the buffer in an argument, even inside a view; empty for a number."""
    found = re.search(r"\b(?:buf|arg|primals)\w*", ast.unparse(argument))
    return found[0] if found else ""


def _named(buffers: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, buffers)))
