"""Shows the kernel calls of both sides next to each other, with the buffers that each reads and
writes.

So a reader sees a fusion that moved, and a value that is stored or computed again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from patchgate.model.records import record
from patchgate.model.text import counted

# A kernel's own parameters: Inductor names them by what it does with each.
_SIGNATURE = re.compile(r"(?:\bdef (\w+)|^extern \"C\".*?void +\w+)\(([^)]*)\)", re.M | re.S)
_DEFINED = re.compile(r"^(\w+) = async_compile\.\w+\(.*?'''\n(.*?)^'''", re.MULTILINE | re.DOTALL)
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
        """Kind and counts; equal if only the numbers of kernels and buffers differ."""
        return self.kind, len(self.reads), len(self.writes)


@record
class CallPair:
    """Two calls that belong together, or one that the other side lacks; both are empty for calls
    left out.
    """

    old: tuple[str, ...]  #: name, reads and writes without the patch
    new: tuple[str, ...]
    note: str  #: how they differ; empty where they do not


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
    roles = {name: _POINTER.findall(_parameters(source)) for name, source in _DEFINED.findall(code)}
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


def _parameters(source: str) -> str:
    found = _SIGNATURE.search(source)
    return found[2] if found else ""


def _buffer(argument: ast.expr) -> str:
    """The buffer of an argument, also behind a view; empty for a number."""
    return next(
        (
            node.id
            for node in ast.walk(argument)
            if isinstance(node, ast.Name) and re.fullmatch(r"(?:buf|arg|primals)\w*", node.id)
        ),
        "",
    )


def _named(buffers: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, buffers)))
