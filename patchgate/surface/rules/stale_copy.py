"""PG122: the replaced function's body changes upstream within the releases where the patch applies.

Red, with a three-way view, when the replacement is a copy of one of those bodies; else a note.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from functools import lru_cache

from patchgate.surface.findings import Remark, Severity, View
from patchgate.surface.usage import Live, Rebinding

# How much of a body an override shares with it before we call it a copy.
_COPY = 0.6


def check(views: Sequence[View]) -> Iterator[Remark]:
    by_target: dict[str, list[tuple[View, Rebinding]]] = {}
    for view in views:
        for each in view.usage.rebindings:
            if view.claimed and each.live is Live.LIVE and each.original is not None and each.function is not None:
                by_target.setdefault(each.target, []).append((view, each))
    for target, applied in by_target.items():
        bodies = [each.original.body for _, each in applied if each.original is not None]
        if len(set(bodies)) > 1:
            yield from _changed(target, applied, bodies)


def _changed(target: str, applied: Sequence[tuple[View, Rebinding]], bodies: Sequence[str]) -> Iterator[Remark]:
    override = _override(applied[0][0], applied[0][1])
    bases = [(_similarity(text, override), at, text) for at, text in enumerate(map(_upstream, applied)) if text]
    likeness, base_at, base = max(bases, key=lambda each: (each[0], -each[1]), default=(0.0, 0, ""))
    base_at = base_at if likeness >= _COPY else 0
    for at, (view, each) in enumerate(applied):
        if bodies[at] == bodies[base_at]:
            continue
        now = _upstream((view, each)) if likeness >= _COPY else None
        lost = _lost(base, now, override) if now else ()
        if likeness >= _COPY and now and not lost:
            continue
        name = ".".join(target.split(".")[-2:])
        origin = applied[base_at][0].version
        copied = bool(lost)
        yield Remark(
            code="PG122",
            version=view.version,
            spot=each.spot,
            message=f"override of `{name}` copies the body of {origin} and lacks {len(lost)} upstream edits"
            if copied
            else f"upstream body of `{name}` differs from {origin}'s",
            severity=Severity.RED if copied else Severity.NOTE,
            fix="port the edits (--details shows them)" if copied else "",
            detail=three_way(origin, base, view.version, now or "", lost) if copied else "",
        )


def _upstream(pair: tuple[View, Rebinding]) -> str | None:
    view, each = pair
    text = view.release.source(each.origin or each.target)
    return _normalised(text) if text else None


def _override(view: View, each: Rebinding) -> str:
    node = each.function.node if each.function is not None else None
    return _normalised(ast.unparse(node)) if node is not None else ""


@lru_cache(maxsize=512)
def _normalised(text: str) -> str:
    """The body alone, in one spelling: no comments, docstring, decorators or signature."""
    try:
        node = ast.parse(_dedented(text)).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return text
    body = getattr(node, "body", [node])
    if isinstance(body, ast.expr):
        return ast.unparse(body)
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return "\n".join(ast.unparse(each) for each in body)


def _dedented(text: str) -> str:
    lines = text.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    return "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines)


def _similarity(text: str, override: str) -> float:
    first, second = text.splitlines(), override.splitlines()
    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


def _lost(base: str, now: str, override: str) -> tuple[str, ...]:
    """Lines that upstream added or removed since the base and that the override did not follow."""
    have = {line.strip() for line in override.splitlines()}
    edits = []
    for line in difflib.ndiff(base.splitlines(), now.splitlines()):
        text = line[2:].strip()
        if (line.startswith("+ ") and text not in have) or (line.startswith("- ") and text in have):
            edits.append(line)
    return tuple(edits)


def three_way(origin: str, base: str, version: str, now: str, lost: Sequence[str]) -> str:
    """Upstream from the base to now as a diff; `!` marks the edits that the override lost."""
    marked = []
    for line in difflib.ndiff(base.splitlines(), now.splitlines()):
        if not line.startswith("? "):
            marked.append(f"{'!' if line in lost else ' '} {line}")
    return "\n".join([f"upstream {origin} -> {version} (! = lost by the override)", *marked])
