"""PG121: a version check is true on releases that lack a name which the guarded code needs.

Quiet if there is no version check, because PG111 then reports the name. Quiet also for a name that
no release has, because no version check can help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, View
from patchgate.lint.interpret.references import Presence, Span
from patchgate.lint.rules.missing_name import in_some_release, missing_references
from patchgate.model.records import read_codes
from patchgate.model.versions import show_releases

(WIDE_GATE,) = read_codes("""
PG121 version check too wide
    The version check is true on releases in which a name that the guarded code needs is missing.
    Why: The patch is applied there and fails.
    Fix: Narrow the version check to the releases that the finding names.
""")


def check(views: Sequence[View]) -> Iterator[Finding]:
    missing: dict[Span, dict[str, set[str]]] = {}
    for view, reference in missing_references(views):
        if not reference.reachable or not reference.gates:
            continue
        may_be_own = reference.kind in ("attribute", "config")
        if not may_be_own or in_some_release(view, reference.owner, reference.name):
            by_version = missing.setdefault(reference.gates[-1], {})
            by_version.setdefault(view.version, set()).add(reference.name)
    known = [view.version for view in views]
    running = {view.version: _running(view) for view in views if missing}
    false = {
        view.version: {each.span for each in view.usage.gates if each.holds is False}
        for view in views
        if missing
    }
    for gate, names_by_version in missing.items():
        good = [
            view.version
            for view in views
            if view.version not in names_by_version and gate in running[view.version]
        ]
        names = sorted(set().union(*names_by_version.values()))
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (" ..." if len(names) > 3 else "")
        fix = f"the names are there: {show_releases(good, known)}" if good else ""
        for view in views:
            if view.version in names_by_version:
                otherwise = gate in false[view.version]
                message = (
                    f"the version check is {'false' if otherwise else 'true'} on releases "
                    f"without {shown}"
                )
                more = ", which the code after `else` needs" if otherwise else ""
                yield view.finding(WIDE_GATE, gate, message + more, fix=fix)


def _running(view: View) -> set[Span]:
    """The version checks around code that runs and finds all its names."""
    return {
        gate
        for reference in view.usage.references
        if reference.reachable and reference.presence is not Presence.MISSING
        for gate in reference.gates
    }
