"""Measures a child's time limit: wall time without the time in which it was ready to run and no
core was free.
"""

from __future__ import annotations

import contextlib
import time

from patchgate.probe.protocol import PATIENCE

# Processes of a family that are read: a fork bomb must not hold up the server.
_FAMILY_SIZE = 50


class CpuWaitClock:
    """The clock of one child.

    Read it often: the waiting time of a descendant is lost when that ends.

    Time in which the child sleeps or computes counts in full.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._started = self._read = time.monotonic()
        self._seen: dict[int, float] = {}
        self._waited = 0.0

    def seconds(self) -> float:
        """Since its start, without the time in which it or one of its descendants waited for a
        core.
        """
        now = time.monotonic()
        waits = {pid: _seconds_waited(pid) for pid in _family(self._pid)}
        # Several that wait at the same time count once.
        longest = max((waits[pid] - self._seen.get(pid, 0.0) for pid in waits), default=0.0)
        self._waited += min(longest, now - self._read)
        self._read, self._seen = now, waits
        wall = now - self._started
        return max(wall - self._waited, wall / PATIENCE)


def _family(pid: int) -> list[int]:
    """A process and its descendants; not many more than `_FAMILY_SIZE`."""
    family = [pid]
    for member in family:
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{member}/task/{member}/children", encoding="ascii") as children,
        ):
            family += [int(child) for child in children.read().split()]
        if len(family) > _FAMILY_SIZE:
            break
    return family


def _seconds_waited(pid: int) -> float:
    """The second number of `schedstat`, which is in nanoseconds; 0 where the kernel has none."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open(f"/proc/{pid}/schedstat", encoding="ascii") as file,
    ):
        return int(file.read().split()[1]) / 1e9
    return 0.0
