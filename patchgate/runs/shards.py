"""Cuts the jobs of a sweep into shards, one for each machine.

Either one place deals out the shards, as even as the earlier costs of jobs allow; or each machine
takes every n-th job, without a shared history.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TypeVar

from patchgate.model.records import record

Job = TypeVar("Job")


@record
class Shard:
    """The work of one machine: some patches on one torch."""

    torch: str
    patches: tuple[str, ...]
    part: str  #: number and count among the shards of this torch: "1/2"


def every_nth(jobs: Sequence[Job], number: int, count: int) -> list[Job]:
    """Return every `count`-th job from `number` on (1 is the first), so that the releases of one
    patch land on different machines.
    """
    return list(jobs[number - 1 :: count])


def shards_by_cost(
    torches: Sequence[str],
    patches: Sequence[str],
    machines: int,
    costs: Mapping[tuple[str, str], float],
) -> list[Shard]:
    """Return shards that hold every patch on every torch exactly once: at least one shard for each
    torch, and otherwise at most `machines`.

    `costs` are seconds by (patch, torch); a job that was never measured counts as the mean of the
    others.
    """
    if not patches:
        return []
    mean = sum(costs.values()) / len(costs) if costs else 1.0
    cost = {
        (patch, torch): costs.get((patch, torch), mean) for patch in patches for torch in torches
    }
    counts = dict.fromkeys(torches, 1)
    for _ in range(machines - len(torches)):
        divisible = [torch for torch in torches if counts[torch] < len(patches)]
        if not divisible:
            break
        slowest = max(
            divisible,
            key=lambda torch: sum(cost[patch, torch] for patch in patches) / counts[torch],
        )
        counts[slowest] += 1
    shards = []
    for torch in torches:
        # Deal out the most expensive patches first, each to the shard that has least to do.
        loads = [(0.0, number) for number in range(counts[torch])]
        members: list[list[str]] = [[] for _ in loads]
        seconds = {patch: cost[patch, torch] for patch in patches}
        for patch in sorted(patches, key=seconds.__getitem__, reverse=True):
            load, number = heapq.heappop(loads)
            members[number].append(patch)
            heapq.heappush(loads, (load + seconds[patch], number))
        shards += [
            Shard(torch=torch, patches=tuple(names), part=f"{number}/{len(members)}")
            for number, names in enumerate(members, 1)
            if names
        ]
    return shards
