"""A replaced body, its upstream version now and the override, as lines: is one a copy of the other?

Also which upstream edits the copy lost, and a three-way view of them.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

# How much of a body an override shares with it before we call it a copy.
COPY = 0.6
_AROUND = 2


@lru_cache(maxsize=512)
def body_of(text: str) -> str:
    """The body of a function alone, in one spelling: no comments, docstring, decorators or signature."""
    try:
        node = ast.parse(_dedented(text)).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return text
    body = getattr(node, "body", [node])
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Lambda):
        body = node.value.body
    if isinstance(body, ast.expr):
        return ast.unparse(body)
    if len(body) > 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return "\n".join(ast.unparse(each) for each in body)


def _dedented(text: str) -> str:
    lines = text.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    return "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines)


def likeness(text: str, override: str) -> float:
    """0 to 1: how many lines, in order, the two share."""
    return difflib.SequenceMatcher(None, text.splitlines(), override.splitlines(), autojunk=False).ratio()


def edits_lost(base: str, now: str, override: str) -> tuple[str, ...]:
    """Lines that upstream added (`+ `) or removed (`- `) since the base and that the override did not follow."""
    have = {line.strip() for line in override.splitlines()}
    return tuple(
        line
        for line in _changes(base, now)
        if (line.startswith("+ ") and line[2:].strip() not in have)
        or (line.startswith("- ") and line[2:].strip() in have)
    )


def three_way(origin: str, base: str, version: str, now: str, override: str, lost: Sequence[str]) -> str:
    """The changes upstream since the base, `!` before those that the override lost; then those of the override."""
    upstream = (f"{'!' if line in lost else ' '} {line}" for line in _changes(base, now))
    own = (f"  {line}" for line in _changes(base, override))
    return "\n".join(
        [
            f"upstream, {origin} -> {version} (! = lost by the override)",
            *_near_changes(upstream),
            f"override, {origin} -> patch",
            *_near_changes(own),
        ]
    )


def _changes(old: str, new: str) -> Iterator[str]:
    return (line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if not line.startswith("? "))


def _near_changes(lines: Iterable[str]) -> Iterator[str]:
    """The changed lines and a few around them; `...` for what is left out."""
    found = list(lines)
    changed = [at for at, line in enumerate(found) if line[2] in "+-"]
    kept = sorted({near for at in changed for near in range(at - _AROUND, at + _AROUND + 1) if 0 <= near < len(found)})
    before = -1
    for at in kept:
        if at != before + 1:
            yield "    ..."
        yield found[at].rstrip()
        before = at
    if not kept:
        yield "    no change"
    elif before != len(found) - 1:
        yield "    ..."
