"""PG130: a version gate without an upper bound around a wrapper, and what it wraps changed since
its first release.

A note. Quiet where the gate or the manifest ends before the change, and for overrides that do not
call the original: those are PG122's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Rebinding
from patchgate.lint.rules.stale_copy import calls_original
from patchgate.model.records import read_codes

(OPEN_END,) = read_codes("""
PG130 version check without an upper bound
    The version check is true on every later release, and the function that the patch wraps has
    another body there than in the first release on which the check is true.
    Why: Whether the defect is still present, and whether the wrapper is still right, was decided
    for a body that no longer exists.
    Fix: Add an upper bound before the change, or state the symptom in the manifest:
    `patchgate gate` then measures on every release whether the patch is needed.
""")


def check(views: Sequence[View]) -> Iterator[Finding]:
    admitted: dict[str, list[tuple[View, Rebinding]]] = {}
    for view in views:
        for each in view.usage.rebindings:
            if each.reachable and view.claimed and each.original is not None:
                admitted.setdefault(each.target, []).append((view, each))
    newest = views[-1].version if views else ""
    for pairs in admitted.values():
        (first, written_for), (last, rebinding) = pairs[0], pairs[-1]
        bounded_below = first is not views[0]
        if last.version != newest or not (
            bounded_below and rebinding.gates and calls_original(last, rebinding)
        ):
            continue
        changed = [view for view, each in pairs if each.original != written_for.original]
        if changed:
            message = (
                f"the version check has no upper bound, and `{rebinding.short_target}`, which this "
                "wraps,"
                f" has another body in {changed[0].version} than in {first.version}"
            )
            yield last.finding(OPEN_END, rebinding.span, message, severity=Severity.NOTE)
