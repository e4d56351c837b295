"""Sets of releases as bit masks in memory and as ranges in the files of the index.

`2.6.0..2.8.0` is a range, `2.11.0..` one that reaches the newest release, so that adding a release touches
only the lines it ends. Steps do the same for a value: `#a 2.9.0#b 2.12.0-` is a, from 2.9.0 b, from 2.12.0 none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property


class Spans:
    """The words for sets of these releases, oldest first."""

    def __init__(self, releases: Sequence[str]) -> None:
        self.releases = tuple(releases)
        self.bits = {version: 1 << at for at, version in enumerate(self.releases)}
        self._masks: dict[str, int] = {}

    @cached_property
    def all(self) -> int:
        return (1 << len(self.releases)) - 1

    def runs(self, mask: int) -> Iterable[tuple[int, int]]:
        """(first, last) of each run of neighbours."""
        first = None
        for at in range(len(self.releases) + 1):
            inside = bool(mask >> at & 1)
            if inside and first is None:
                first = at
            elif not inside and first is not None:
                yield first, at - 1
                first = None

    def text(self, mask: int) -> str:
        last = len(self.releases) - 1
        names = self.releases
        return ",".join(
            f"{names[start]}.." if stop == last else names[start] if start == stop else f"{names[start]}..{names[stop]}"
            for start, stop in self.runs(mask)
        )

    def mask(self, text: str) -> int:
        """The set that `text` says; raises KeyError for a release that is not known."""
        if text not in self._masks:
            found = 0
            for part in text.split(","):
                start, dots, stop = part.partition("..")
                low = self.bits[start]
                high = self.bits[stop] if stop else (self.all + 1) >> 1 if dots else low
                found |= (high << 1) - low
            self._masks[text] = found
        return self._masks[text]

    def steps(self, values: Mapping[int, str], life: int) -> str:
        """The value of each release of `life`, as the releases at which it changes; the very first is not named."""
        found: list[str] = []
        before = None
        for version, bit in self.bits.items():
            now = values.get(bit)
            if bit & life and now != before:
                found.append(f"{version if bit != life & -life else ''}{f'#{now}' if now is not None else '-'}")
                before = now
        return " ".join(found)

    def stepped(self, text: str, life: int) -> Iterator[tuple[int, str]]:
        """(releases, value) for each step that `text` says."""
        low, value = 0, ""
        for step in text.split(" "):
            version, _, now = step.rstrip("-").partition("#")
            start = self.bits[version] if version else life & -life
            if value:
                yield (start - low) & life, value
            low, value = start, now
        if value:
            yield (self.all + 1 - low) & life, value
