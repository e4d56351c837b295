"""Jobs -> machines: one row a machine, and about the same time for each, by what the jobs took before.

Decides who gets what. Refuses to know what a job is; a job that was never measured counts as the mean of the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one machine judges: `patches` on one torch; `part` is "1/2" where a row is shared by two."""

    torch: str
    patches: tuple[str, ...]
    part: str


def shares(
    torches: Sequence[str], patches: Sequence[str], machines: int, costs: Mapping[tuple[str, str], float]
) -> list[Share]:
    """Every patch on every torch, exactly once, over at least one machine a row and at most `machines` otherwise."""
    if not patches:
        return []
    mean = sum(costs.values()) / len(costs) if costs else 1.0
    cost = {(patch, torch): costs.get((patch, torch), mean) for patch in patches for torch in torches}
    parts = dict.fromkeys(torches, 1)
    for _ in range(machines - len(torches)):
        open_rows = [torch for torch in torches if parts[torch] < len(patches)]
        if not open_rows:
            break
        slowest = max(open_rows, key=lambda torch: sum(cost[patch, torch] for patch in patches) / parts[torch])
        parts[slowest] += 1
    return [share for torch in torches for share in _split(torch, patches, parts[torch], cost)]


def _split(torch: str, patches: Sequence[str], parts: int, cost: Mapping[tuple[str, str], float]) -> list[Share]:
    """The dearest first, each to the machine that has least to do."""
    loads = [(0.0, number) for number in range(parts)]
    given: list[list[str]] = [[] for _ in range(parts)]
    for patch in sorted(patches, key=lambda patch: -cost[patch, torch]):
        load, number = heapq.heappop(loads)
        given[number].append(patch)
        heapq.heappush(loads, (load + cost[patch, torch], number))
    return [
        Share(torch=torch, patches=tuple(one), part=f"{number}/{parts}") for number, one in enumerate(given, 1) if one
    ]
