"""When a finding hurts: now, with the next release, on releases that the lower bound admits, on older ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from packaging.version import Version


class When(str, Enum):
    #: On the newest release that the project admits, or on the one that is installed.
    NOW = "broken now"
    #: On the first of the releases after those that the project admits on which anything breaks.
    NEXT = "breaks next"
    #: On the oldest releases that it admits, and on no later ones.
    LOWER_BOUND = "lower bound too low"
    #: On others that are not the newest.
    OLDER = "older"


def when(releases: Sequence[str], admitted: Sequence[str], installed: str = "") -> When:
    """When it hurts that something is wrong on `releases`, of those that a project admits, oldest first."""
    if not releases or not admitted or {admitted[-1], installed} & {*releases}:
        return When.NOW
    return When.LOWER_BOUND if list(releases) == list(admitted[: len(releases)]) else When.OLDER


def first_after(releases: Collection[str], admitted: Sequence[str]) -> str:
    """The oldest release that all of these releases are older than: the lower bound that the code needs."""
    newest = max(map(Version, releases))
    return next((each for each in admitted if Version(each) > newest), "")


def newer(known: Sequence[str], admitted: Sequence[str]) -> list[str]:
    """The known releases that are newer than all that the project admits."""
    return [each for each in known if admitted and Version(each) > Version(admitted[-1])]
