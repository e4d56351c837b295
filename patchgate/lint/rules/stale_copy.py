"""PG122: the body of the replaced function is another one in some release where the patch applies.

Red when the override is a copy of one of its bodies, which takes the later edits away again; else a note.
Quiet for an override that calls the original.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from patchgate.lint.findings import Remark, Severity, View, show_releases
from patchgate.lint.index.read_function import fingerprint
from patchgate.lint.interpret.references import Rebinding
from patchgate.lint.similarity import COPY, body_of, edits_lost, likeness, three_way


@dataclass(frozen=True, kw_only=True)
class _Base:
    """The upstream body that the override was copied from; no text where no sources are at hand."""

    fingerprint: str
    releases: str
    text: str | None


def check(views: Sequence[View]) -> Iterator[Remark]:
    by_target: dict[str, list[tuple[View, Rebinding]]] = {}
    for view in views:
        for each in view.usage.rebindings:
            if each.original is not None and each.function is not None:
                by_target.setdefault(each.target, []).append((view, each))
    for target, pairs in by_target.items():
        applied = [(view, each) for view, each in pairs if view.claimed and each.reachable]
        applied = [(view, each) for view, each in applied if not _calls_original(view, each)]
        if applied and len({_print(each) for _, each in pairs}) > 1:
            yield from _changed(".".join(target.split(".")[-2:]), pairs, applied)


def _changed(
    name: str, pairs: Sequence[tuple[View, Rebinding]], applied: Sequence[tuple[View, Rebinding]]
) -> Iterator[Remark]:
    base = _base(pairs, applied)
    if base is not None:
        for view, each in applied:
            if _print(each) != base.fingerprint:
                yield from _stale(name, view, each, base)
        return
    steps = [new[0].version for old, new in pairwise(applied) if _print(old[1]) != _print(new[1])]
    if not steps:
        return
    at_hand = _text(*applied[-1]) is not None
    for view, each in applied:
        yield Remark(
            code="PG122",
            version=view.version,
            span=each.span,
            message=f"upstream body of `{name}` changes in {', '.join(steps)}",
            severity=Severity.NOTE,
            fix="" if at_hand else "`--fetch` tells whether the override is a copy that lost edits",
        )


def _base(pairs: Sequence[tuple[View, Rebinding]], applied: Sequence[tuple[View, Rebinding]]) -> _Base | None:
    """The body that the override repeats to the letter, else the one most like it, if that is like enough."""
    known = [view.version for view, _ in pairs]
    bodies: dict[str, list[tuple[View, Rebinding]]] = {}
    for view, each in pairs:
        bodies.setdefault(_print(each), []).append((view, each))

    def base(print_: str) -> _Base:
        releases = show_releases([view.version for view, _ in bodies[print_]], known)
        return _Base(fingerprint=print_, releases=releases, text=_text(*bodies[print_][-1]))

    node = applied[0][1].function if applied[0][1].function is not None else None
    if node is None:
        return None
    if not isinstance(node, ast.Lambda) and fingerprint(node) in bodies:
        return base(fingerprint(node))
    override = body_of(ast.unparse(node))
    texts = {print_: _text(*found[-1]) for print_, found in bodies.items()}
    alike = {print_: likeness(text, override) for print_, text in texts.items() if text}
    best = max(alike, key=lambda print_: alike[print_], default=None)
    return base(best) if best is not None and alike[best] >= COPY else None


def _stale(name: str, view: View, each: Rebinding, base: _Base) -> Iterator[Remark]:
    now = _text(view, each)
    message, detail = f"override of `{name}` is the body of {base.releases}, which is another one here", ""
    fix = "port the edits (`--fetch --details` shows them)"
    if now is not None and base.text is not None and each.function is not None:
        override = body_of(ast.unparse(each.function))
        lost = edits_lost(base.text, now, override)
        if not lost:
            return
        edits = f"{len(lost)} upstream edit{'s' * (len(lost) != 1)}"
        message = f"override of `{name}` copies the body of {base.releases} and lacks {edits}"
        detail = three_way(base.releases, base.text, view.version, now, override, lost)
        fix = "port the edits (`--details` shows them)"
    yield Remark(code="PG122", version=view.version, span=each.span, message=message, fix=fix, detail=detail)


def _calls_original(view: View, each: Rebinding) -> bool:
    """A wrapper has whatever upstream brings."""
    node = each.function if each.function is not None else None
    return node is not None and any(
        call.dotted == each.origin and node.lineno <= call.span.line <= (node.end_lineno or 0)
        for call in view.usage.calls
    )


def _print(each: Rebinding) -> str:
    return each.original.body if each.original is not None else ""


def _text(view: View, each: Rebinding) -> str | None:
    text = view.release.source(each.origin or each.target)
    return body_of(text) if text else None
