"""Touches of names that a release does not have, shared by the rules that word them.

Decides which missing touches count. Refuses to know codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.surface.findings import Severity, View
from patchgate.surface.usage import Live, Presence, Touch


def missing_touches(views: Sequence[View], *kinds: str) -> Iterator[tuple[View, Touch]]:
    """Each (view, touch) of a missing name that the patch did not put there itself."""
    defined = {name.rpartition(".")[2] for view in views for name in view.usage.defined}
    for view in views:
        for touch in view.usage.touches:
            if touch.kind not in kinds or touch.presence is not Presence.MISSING or touch.live is Live.QUIET:
                continue
            if touch.name not in defined:
                yield view, touch


def severity_of(touch: Touch) -> Severity:
    """Outside the gate a missing name is only worth knowing before someone widens the gate."""
    return Severity.RED if touch.live is Live.LIVE else Severity.NOTE


def outside(touch: Touch) -> str:
    return "" if touch.live is Live.LIVE else " (outside the gate)"
