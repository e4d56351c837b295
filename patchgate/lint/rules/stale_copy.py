"""PG122, PG130: the body of the replaced function differs between releases where the patch applies.

PG122 is red if the override copies an older body, because it undoes the later edits. Any other
difference is a note; a copy of a newer body is a backport. Bodies of all indexed releases are
compared. PG122 is quiet for a wrapper, which calls the original. PG130 is a note on a wrapper
behind a version check without an upper bound, unless the manifest ends before the change.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from packaging.version import Version

from patchgate.lint.findings import THIS_FILE, Finding, Severity, View
from patchgate.lint.index.read_module import fingerprint
from patchgate.lint.index.records import Function
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import FunctionNode, Rebinding
from patchgate.model.records import read_codes, record
from patchgate.model.versions import show_releases

BODY_CHANGED, OPEN_END = read_codes("""
PG122 replaced body changed upstream
    The body of the replaced function differs between the releases that the patch claims.
    Why: A copied override removes the upstream changes of later releases.
    Fix: Port the edits (`--details` shows base, upstream and override), or narrow the claim.
PG130 version check without an upper bound
    The version check is true on every later release, and the function that the patch wraps has
    another body there than in the first release on which the check is true.
    Why: The defect and the wrapper were judged with a body that no longer exists.
    Fix: Add an upper bound before the change, or state the symptom in the manifest:
    `patchgate gate` then measures on every release whether the patch is needed.
""")


@record
class _Pair:
    """A function of torch and its override, in one release."""

    view: View
    rebinding: Rebinding
    function: FunctionNode
    #: The fingerprint of torch's body.
    body: str

    def text(self) -> str | None:
        """Torch's body; None if there are no sources."""
        text = self.view.release.source(self.rebinding.origin or self.rebinding.target)
        return body_of(text) if text else None

    def override(self) -> str:
        return body_of(ast.unparse(self.function))


@record
class _Base:
    """The upstream body that the override was copied from. `text` is None without sources.

    `releases` names the releases with this body, in words; `newest` is the last of these releases.
    """

    body: str
    newest: str
    releases: str
    text: str | None


def calls_original(view: View, rebinding: Rebinding) -> bool:
    """True if the replacement calls the original, so that upstream changes take effect."""
    if rebinding.function is None:
        return False
    first, last = rebinding.function.lineno, rebinding.function.end_lineno or 0
    return any(
        call.dotted == rebinding.origin and first <= call.span.line <= last
        for call in view.usage.calls
    )


def check(views: Sequence[View]) -> Iterator[Finding]:
    by_target: dict[str, list[_Pair]] = {}
    for view in views:
        for each in view.usage.rebindings:
            if each.original is not None and each.function is not None:
                pair = _Pair(
                    view=view, rebinding=each, function=each.function, body=each.original.body
                )
                by_target.setdefault(each.target, []).append(pair)
    for pairs in by_target.values():
        applied = [pair for pair in pairs if pair.view.claimed and pair.rebinding.reachable]
        if applied:
            yield from _open_end(applied, views)
        applied = [pair for pair in applied if not calls_original(pair.view, pair.rebinding)]
        bodies = _bodies(applied[-1]) if applied else {}
        if len(bodies) < 2:
            continue
        base = _base(bodies, applied[-1])
        if base is None:
            yield from _changed(applied)
        else:
            yield from (
                finding
                for pair in applied
                if pair.body != base.body
                for finding in _differing(pair, base)
            )


def _open_end(applied: Sequence[_Pair], views: Sequence[View]) -> Iterator[Finding]:
    first, last = applied[0], applied[-1]
    bounded_above = last.view is not views[-1] or not last.rebinding.gates
    if first.view is views[0] or bounded_above or not calls_original(last.view, last.rebinding):
        return
    original = first.rebinding.original
    changed = [pair.view for pair in applied if pair.rebinding.original != original]
    if changed:
        message = (
            f"the version check has no upper bound, and `{last.rebinding.short_target}`, which "
            f"this wraps, has another body in {changed[0].version} than in {first.view.version}"
        )
        span = last.rebinding.span
        yield last.view.finding(OPEN_END, span, message, severity=Severity.NOTE)


def _changed(applied: Sequence[_Pair]) -> Iterator[Finding]:
    """Yield notes on changes that upstream made to a body and that the override seems to lack."""
    steps = [new.view.version for old, new in pairwise(applied) if old.body != new.body]
    if not steps:
        return
    ask = (
        f"`patchgate lint --fetch {THIS_FILE}` shows whether the override is a copy that lacks "
        "these edits"
    )
    fix = "" if applied[-1].text() is not None else ask
    for pair in applied:
        message = f"the body of `{pair.rebinding.short_target}` changes in torch {', '.join(steps)}"
        yield pair.view.finding(
            BODY_CHANGED, pair.rebinding.span, message, severity=Severity.NOTE, fix=fix
        )


def _bodies(pair: _Pair) -> dict[str, list[Release]]:
    """Fingerprint of each body that the target ever had -> the releases with this body, including
    releases that are not judged.
    """
    bodies: dict[str, list[Release]] = {}
    for release in pair.view.release.others():
        found = pair.rebinding.replaced_in(release)
        if found is not None and isinstance(found.symbol, Function):
            bodies.setdefault(found.symbol.body, []).append(release)
    return bodies


def _base(bodies: Mapping[str, list[Release]], pair: _Pair) -> _Base | None:
    """The body that the override equals, or else the most similar body if it is similar enough."""
    known = pair.view.release.index.sets.releases
    origin = pair.rebinding.origin or pair.rebinding.target
    texts = {body: body_of(same[-1].source(origin) or "") for body, same in bodies.items()}

    def base(body: str) -> _Base:
        versions = [release.version for release in bodies[body]]
        return _Base(
            body=body,
            newest=versions[-1],
            releases=show_releases(versions, known),
            text=texts[body] or None,
        )

    node = pair.function
    if _is_stub(node):
        return None
    if not isinstance(node, ast.Lambda) and fingerprint(node) in bodies:
        return base(fingerprint(node))
    override = pair.override()
    alike = {body: likeness(text, override) for body, text in texts.items() if text}
    # Take the newest of equally similar bodies: there is no reason to prefer an older one.
    best = max(reversed(alike), key=lambda body: alike[body], default=None)
    return base(best) if best is not None and alike[best] >= COPY else None


def _is_stub(function: FunctionNode) -> bool:
    """True if the body is one line without parentheses, such as `return None`. An equal body in
    torch does not prove that such a body is a copy.
    """
    body = function.body if isinstance(function, ast.Lambda) else body_of(ast.unparse(function))
    lines = [ast.unparse(body)] if isinstance(body, ast.expr) else body.splitlines()
    return len(lines) == 1 and "(" not in lines[0]


def _differing(pair: _Pair, base: _Base) -> Iterator[Finding]:
    now, name = pair.text(), pair.rebinding.short_target
    if Version(base.newest) > Version(pair.view.version):
        message = f"override of `{name}` copies a newer body of torch [{base.releases}]"
        yield pair.view.finding(BODY_CHANGED, pair.rebinding.span, message, severity=Severity.NOTE)
        return
    message = (
        f"override of `{name}` copies a body of torch [{base.releases}] that these releases do not "
        "have"
    )
    detail = ""
    fix = f"port the upstream edits (`patchgate lint --fetch --details {THIS_FILE}` shows them)"
    if now is not None and base.text is not None:
        override = pair.override()
        lost = edits_lost(base.text, now, override)
        if not lost:
            return
        edits = f"{len(lost)} upstream edit{'s' * (len(lost) != 1)}"
        message = f"override of `{name}` copies a body of torch [{base.releases}] and lacks {edits}"
        detail = three_way(base.releases, base.text, pair.view.version, now, override, lost)
        fix = "port the upstream edits (`--details` shows them)"
    yield pair.view.finding(
        BODY_CHANGED, pair.rebinding.span, message, fix=fix, detail=detail, of=pair.rebinding
    )


# An override counts as a copy if it shares at least this part of a body.
COPY = 0.6
_AROUND = 2


@lru_cache(maxsize=512)
def body_of(text: str) -> str:
    """The normalized body of a function, without comments, docstring, decorators and signature."""
    try:
        is_indented = text[:1].isspace()
        node = ast.parse(f"if 1:\n{text}" if is_indented else text).body[0]
        node = node.body[0] if isinstance(node, ast.If) and is_indented else node
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return text
    body = getattr(node, "body", [node])
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Lambda):
        body = node.value.body
    if isinstance(body, ast.expr):
        return ast.unparse(body)
    if len(body) > 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return "\n".join(ast.unparse(each) for each in body)


def likeness(text: str, override: str) -> float:
    """The share of lines, from 0 to 1, that the two texts have in common in the same order."""
    return difflib.SequenceMatcher(
        None, text.splitlines(), override.splitlines(), autojunk=False
    ).ratio()


def edits_lost(base: str, now: str, override: str) -> tuple[str, ...]:
    """Lines that upstream added (`+ `) or removed (`- `) since the base and that the override
    lacks.
    """
    have = {line.strip() for line in override.splitlines()}
    return tuple(
        line
        for line in _changes(base, now)
        if (line.startswith("+ ") and line[2:].strip() not in have)
        or (line.startswith("- ") and line[2:].strip() in have)
    )


def three_way(
    origin: str, base: str, version: str, now: str, override: str, lost: Sequence[str]
) -> str:
    """The upstream changes since the base, marked `!` if the override lacks them; then the changes
    of the override.
    """
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
    return (
        line
        for line in difflib.ndiff(old.splitlines(), new.splitlines())
        if not line.startswith("? ")
    )


def _near_changes(lines: Iterable[str]) -> Iterator[str]:
    """The changed lines and a few around them; `...` replaces the others."""
    found = list(lines)
    changed = [at for at, line in enumerate(found) if line[2] in "+-"]
    kept = sorted(
        {
            near
            for at in changed
            for near in range(at - _AROUND, at + _AROUND + 1)
            if 0 <= near < len(found)
        }
    )
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
