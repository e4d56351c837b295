"""Touches of names that a release does not have, shared by the rules that word them.

Decides which missing touches count. Refuses to know codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Severity, View
from patchgate.lint.interpret.references import Definition, Live, Presence, Touch


def missing_touches(views: Sequence[View], *kinds: str) -> Iterator[tuple[View, Touch]]:
    """Each (view, touch) of a missing name that the patch has not put there itself by then."""
    for view in views:
        for at, touch in enumerate(view.usage.touches):
            if touch.kind not in kinds or touch.presence is not Presence.MISSING or touch.live is Live.QUIET:
                continue
            if not any(_made(view, touch, at, each) for each in view.usage.defined):
                yield view, touch


def same_name(view: View, touch: Touch, owner: str, name: str) -> bool:
    """Whether a touch can mean `owner.name`: a class may be meant by another of its family, a module only by itself."""
    if touch.name != name:
        return False
    return touch.owner == owner or not {touch.owner, owner} & view.release.modules()


def _made(view: View, touch: Touch, at: int, made: Definition) -> bool:
    """Whether the patch may define the name before touch number `at`.

    In what order functions run is not known; and a branch of one may run when it is called again.
    """
    again = touch.path[0] > 0 and touch.path != made.path[: len(touch.path)]
    in_time = made.path[0] != touch.path[0] or made.after <= at or again
    return in_time and same_name(view, touch, made.owner, made.name)


def severity_of(touch: Touch) -> Severity:
    """Outside the gate a missing name is only worth knowing before someone widens the gate."""
    return Severity.RED if touch.live is Live.LIVE else Severity.NOTE


def outside(touch: Touch) -> str:
    return "" if touch.live is Live.LIVE else " (outside the gate)"
