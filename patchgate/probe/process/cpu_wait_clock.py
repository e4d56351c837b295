"""How long a child has had a core at its disposal: wall time without the time that the machine kept it waiting.

Decides what is taken off, and how much at most. A child that sleeps, or computes for ever, gets nothing.
"""

from __future__ import annotations

import contextlib
import time

# A machine that is shared with others may make everything take this many times as long, and no more.
PATIENCE = 3.0


class Clock:
    """The clock of one child. It has to be read often: what a descendant waited is lost when it ends."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._started = self._read = time.monotonic()
        self._seen: dict[int, float] = {}
        self._waited = 0.0

    def seconds(self) -> float:
        """Since its start, but for the time in which it, or the descendant that it waits for, was kept waiting."""
        now = time.monotonic()
        waits = {pid: _waited(pid) for pid in _family(self._pid)}
        # Those that wait at the same time wait once.
        longest = max((waits[pid] - self._seen.get(pid, 0.0) for pid in waits), default=0.0)
        self._waited += min(longest, now - self._read)
        self._read, self._seen = now, waits
        wall = now - self._started
        return max(wall - self._waited, wall / PATIENCE)


def _family(pid: int) -> list[int]:
    """A process and its descendants; a bounded number of them."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError), open(f"/proc/{one}/task/{one}/children", encoding="ascii") as told:
            found += [int(child) for child in told.read().split()]
        if len(found) > 50:
            break
    return found


def _waited(pid: int) -> float:
    """Seconds that a process was ready to run and no core was free; 0 where the kernel does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/schedstat", encoding="ascii") as told:
        return int(told.read().split()[1]) / 1e9
    return 0.0
