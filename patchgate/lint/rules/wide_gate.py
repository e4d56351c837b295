"""PG121: a gate admits releases in which a name that it guards is missing.

Quiet without a gate: PG111 says it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View, show_releases
from patchgate.lint.interpret.references import Presence, Span
from patchgate.lint.rules.missing import missing_references


def check(views: Sequence[View]) -> Iterator[Remark]:
    lacking: dict[Span, dict[str, set[str]]] = {}
    for view, reference in missing_references(views, "module", "name", "attribute", "config"):
        if reference.reachable and reference.gates:
            lacking.setdefault(reference.gates[-1], {}).setdefault(view.version, set()).add(reference.name)
    known = [view.version for view in views]
    for span, missing in lacking.items():
        good = [version for version in known if version not in missing and _runs(views, version, span)]
        names = sorted(set().union(*missing.values()))
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (" ..." if len(names) > 3 else "")
        for version in missing:
            yield Remark(
                code="PG121",
                version=version,
                span=span,
                message=f"the gate admits releases without {shown}",
                fix=f"the names are there: {show_releases(good, known)}" if good else "",
            )


def _runs(views: Sequence[View], version: str, gate: Span) -> bool:
    usage = next(view.usage for view in views if view.version == version)
    return any(
        gate in reference.gates and reference.reachable and reference.presence is not Presence.MISSING
        for reference in usage.references
    )
