"""Ranges of torch releases: how one value that held for several releases is written.

Decides `2.11.0..2.13.0` and its splitting and merging over a known sequence
of releases. Knows no facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from packaging.version import Version

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class ReleaseRange:
    """Both ends belong to it; releases between them that were never recorded do too."""

    first: str
    last: str

    def __contains__(self, torch: str) -> bool:
        release = Version(Version(torch).public)
        return Version(self.first) <= release <= Version(self.last)

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first}..{self.last}"


def parse_range(text: str) -> ReleaseRange:
    """`2.11.0` or `2.11.0..2.13.0`. Raises ValueError (InvalidVersion is one) on anything else."""
    first, _, last = text.partition("..")
    last = last or first
    if Version(first) > Version(last):
        raise ValueError(f"empty range {text}")
    return ReleaseRange(first=first, last=last)


def release_line(torch: str) -> str:
    """What a torch is compared as: each nightly build is another version of the same line, `2.16.0.dev`."""
    version = Version(torch)
    return f"{version.base_version}.dev" if version.is_devrelease else torch


def in_order(releases: Iterable[str]) -> list[str]:
    return sorted(set(releases), key=Version)


def spread(ranges: Mapping[ReleaseRange, Value], releases: Sequence[str]) -> dict[str, Value]:
    """Release -> value for each known release that a range covers."""
    known = in_order([*releases, *(end for span in ranges for end in (span.first, span.last))])
    return {torch: value for torch in known for span, value in ranges.items() if torch in span}


def gather(values: Mapping[str, Value], releases: Sequence[str]) -> dict[ReleaseRange, Value]:
    """The fewest ranges that give each release of `values` its value.

    Two releases with the same value join when no release of `releases` lies between them with
    another value or none.
    """
    found: list[tuple[list[str], Value]] = []
    for torch in in_order([*releases, *values]):
        if torch not in values:
            found.append(([], None))  # type: ignore[arg-type]
        elif found and found[-1][0] and found[-1][1] == values[torch]:
            found[-1][0].append(torch)
        else:
            found.append(([torch], values[torch]))
    return {ReleaseRange(first=span[0], last=span[-1]): value for span, value in found if span}
