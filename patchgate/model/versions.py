"""Ranges and sets of torch releases, and the one way to write them: `2.11.0..2.13.0`.

golden/ has one value for each range of releases; golden/surface states for each value the set of
releases that have it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TypeVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.model.errors import UsageError
from patchgate.model.records import record
from patchgate.model.text import nearest

Value = TypeVar("Value")


@cache  # golden asks for a few releases thousands of times
def _release(torch: str) -> Version:
    """The version without its local part."""
    return Version(Version(torch).public)


@record
class ReleaseRange:
    """A range of releases, both ends included. Releases within the range that were never recorded
    belong to it too.
    """

    first: str
    last: str

    def __contains__(self, torch: str) -> bool:
        return _release(self.first) <= _release(torch) <= _release(self.last)

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first}..{self.last}"


def parse_range(text: str, *, newest: str = "") -> ReleaseRange:
    """Parse `2.11.0`, `2.11.0..2.13.0`, or `2.11.0..` up to `newest`.

    Raises ValueError (InvalidVersion is one) for anything else.
    """
    first, dots, last = text.partition("..")
    last = last or (dots and newest) or first
    if Version(first) > Version(last):
        raise ValueError(f"empty range {text}")
    return ReleaseRange(first=first, last=last)


def release_line(torch: str) -> str:
    """The name by which a torch is compared with earlier runs. All nightly builds of a release have
    the same name, `2.16.0.dev`.
    """
    version = Version(torch)
    return f"{version.base_version}.dev" if version.is_devrelease else torch


def allowed_releases(spec: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known releases that `--torch SPEC` allows; SPEC is a specifier or a release. Raises
    UsageError if it is neither, or allows no known release.
    """
    try:
        allowed = SpecifierSet(f"=={spec}" if spec[:1].isdigit() else spec)
    except ValueError:
        raise UsageError(
            "neither a release nor a PEP 440 specifier",
            where="--torch",
            got=spec,
            next='--torch 2.12.1, or --torch ">=2.9,<2.13"',
        ) from None
    known = tuple(known)
    found = tuple(version for version in known if allowed.contains(version, prereleases=True))
    if not found:
        raise UsageError(
            "no indexed release",
            where="--torch",
            got=spec or "an empty index",
            next=_release_instead_of(spec, known),
        )
    return found


def _release_instead_of(spec: str, known: Sequence[str]) -> str:
    newest = max(known, key=Version, default="")
    if newest and spec[:1].isdigit() and Version(spec) > Version(newest):
        return f"--torch {newest}, the newest indexed"
    return nearest(spec, known, "indexed")


def in_order(releases: Iterable[str]) -> list[str]:
    return sorted(set(releases), key=Version)


def runs(members: Container[str], known: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the (first, last) places in `known` (sorted) of each unbroken run of members."""
    for inside, places in groupby(range(len(known)), lambda at: known[at] in members):
        run = list(places)
        if inside:
            yield run[0], run[-1]


class ReleaseSets:
    """Sets of `releases` (oldest first) as bit masks; the oldest release is the lowest bit.

    The text of a set is like `2.6.0..2.8.0,2.11.0..`. A range that reaches the newest release has
    no end, so that a new release changes few lines.
    """

    def __init__(self, releases: Sequence[str]) -> None:
        self.releases = tuple(releases)
        self.bits = {version: 1 << at for at, version in enumerate(self.releases)}
        self.all = (1 << len(self.releases)) - 1
        self.mask, self.text = cache(self._mask), cache(self._text)

    def _text(self, mask: int) -> str:
        names, newest = self.releases, len(self.releases) - 1
        members = {version for version, bit in self.bits.items() if mask & bit}
        return ",".join(
            f"{names[first]}.."
            if last == newest
            else str(ReleaseRange(first=names[first], last=names[last]))
            for first, last in runs(members, names)
        )

    def _mask(self, text: str) -> int:
        """The bit mask of a text. Raises KeyError for a release that is not known."""
        found = 0
        for part in text.split(","):
            span = parse_range(part, newest=self.releases[-1])
            found |= 2 * self.bits[span.last] - self.bits[span.first]
        return found


def range_text(members: Iterable[str], known: Iterable[str]) -> str:
    """A text such as `2.6.0 to 2.9.1, 2.11.0`. A known release that is no member ends a range, and
    so does a missing minor release.

    A range may include patch releases that are not known: an index seldom has all of them.
    """
    inside = set(members)
    texts: list[str] = []
    for first, last in runs(inside, order := in_order([*inside, *known])):
        start = first
        for at in range(first, last + 1):
            if at == last or not _adjoin(order[at], order[at + 1]):
                texts.append(order[at] if at == start else f"{order[start]} to {order[at]}")
                start = at + 1
    return ", ".join(texts) or "no release"


def _adjoin(before: str, after: str) -> bool:
    """True if no minor release lies between two versions."""
    (major, minor), (next_major, next_minor) = _minor(before), _minor(after)
    return next_minor <= minor + 1 if major == next_major else next_minor == 0


def show_releases(versions: Sequence[str], known: Sequence[str]) -> str:
    """A text for people: `2.10 and before`, `from 2.13`, `2.11 to 2.12`, joined by commas; `every
    release` for all known releases.
    """
    if not versions or len(set(versions)) == len(known) > 1:
        return "every release" if versions else "no release"
    return ", ".join(_run_text(first, last, known) for first, last in runs(versions, known))


def _run_text(first: int, last: int, known: Sequence[str]) -> str:
    minors, newest = [_minor(each) for each in known], len(known) - 1
    start = _short(known[first], first == 0 or minors[first - 1] != minors[first])
    end = _short(known[last], last == newest or minors[last + 1] != minors[last])
    if first == 0 and last < newest:
        return f"{end} and before"
    if last == newest and first > 0:
        return f"from {start}"
    if first == last:
        return _short(known[first], minors.count(minors[first]) == 1)
    return start if start == end else f"{start} to {end}"


def _minor(version: str) -> tuple[int, int]:
    parsed = Version(version)
    return parsed.major, parsed.minor


def _short(version: str, whole: bool) -> str:
    return ".".join(map(str, _minor(version))) if whole else version


def full_release(text: str) -> str:
    """The full name of a release, `2.11.0` for `2.11`; any other text stays as it is."""
    return f"{text}.0" if re.fullmatch(r"\d+\.\d+", text) else text
