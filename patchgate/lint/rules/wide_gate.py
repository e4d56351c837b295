"""PG121: a gate admits releases in which a name that it guards is missing.

Quiet without a gate: PG111 says it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View, show_releases
from patchgate.lint.interpret.references import Live, Presence, Spot
from patchgate.lint.rules.missing import missing_touches


def check(views: Sequence[View]) -> Iterator[Remark]:
    lacking: dict[Spot, dict[str, set[str]]] = {}
    for view, touch in missing_touches(views, "module", "name", "attribute", "config"):
        if touch.live is Live.LIVE and touch.gates:
            lacking.setdefault(touch.gates[-1], {}).setdefault(view.version, set()).add(touch.name)
    known = [view.version for view in views]
    for spot, missing in lacking.items():
        good = [version for version in known if version not in missing and _runs(views, version, spot)]
        names = sorted(set().union(*missing.values()))
        shown = ", ".join(f"`{name}`" for name in names[:3]) + (" ..." if len(names) > 3 else "")
        for version in missing:
            yield Remark(
                code="PG121",
                version=version,
                spot=spot,
                message=f"the gate admits releases without {shown}",
                fix=f"the names are there: {show_releases(good, known)}" if good else "",
            )


def _runs(views: Sequence[View], version: str, gate: Spot) -> bool:
    usage = next(view.usage for view in views if view.version == version)
    return any(
        gate in touch.gates and touch.live is Live.LIVE and touch.presence is not Presence.MISSING
        for touch in usage.touches
    )
