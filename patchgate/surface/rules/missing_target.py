"""PG126: a function is assigned to a name that torch does not have.

Quiet for markers that are no functions, and for names that the patch itself uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.surface.findings import Remark, Severity, View
from patchgate.surface.usage import Live, Presence


def check(views: Sequence[View]) -> Iterator[Remark]:
    used = {touch.name for view in views for touch in view.usage.touches}
    for view in views:
        for each in view.usage.rebindings:
            if each.presence is not Presence.MISSING or each.function is None or each.live is Live.QUIET:
                continue
            if each.name in used:
                continue
            live = each.live is Live.LIVE
            yield Remark(
                code="PG126",
                version=view.version,
                spot=each.spot,
                message=f"target `{each.target}` missing{'' if live else ' (outside the gate)'}",
                severity=Severity.RED if live else Severity.NOTE,
            )
