"""Measures the time of a child for its limit: wall time without the time in which it waited for a
free core.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from patchgate.probe.protocol import PATIENCE

# The most processes of a family that are read: a fork bomb must not delay the server.
_FAMILY_SIZE = 50


class CpuWaitClock:
    """The clock of one child.

    Read it often, because the waiting time of a descendant is lost when the descendant ends. Time
    in which the child sleeps or computes counts in full.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._started = self._read = time.monotonic()
        self._seen: dict[int, float] = {}
        self._waited = 0.0

    def seconds(self) -> float:
        """Seconds since the start, without the time in which the child or a descendant waited for a
        core.
        """
        now = time.monotonic()
        waits = {pid: _seconds_waited(pid) for pid in _family(self._pid)}
        # Several processes that wait at the same time count once.
        longest = max((waits[pid] - self._seen.get(pid, 0.0) for pid in waits), default=0.0)
        self._waited += min(longest, now - self._read)
        self._read, self._seen = now, waits
        wall = now - self._started
        return max(wall - self._waited, wall / PATIENCE)


def children_of(pid: int) -> list[int]:
    """The processes that a process has started; none once it has ended."""
    with suppress(OSError):
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return []


def _family(pid: int) -> list[int]:
    """A process and its descendants; not many more than `_FAMILY_SIZE`."""
    family = [pid]
    for member in family:
        family += children_of(member)
        if len(family) > _FAMILY_SIZE:
            break
    return family


def _seconds_waited(pid: int) -> float:
    """Seconds that a process waited for a core, from `schedstat`; 0 if the kernel lacks it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0
