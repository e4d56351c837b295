"""The device for timing: one process at a time uses it. It is warmed up before, and its clocks,
throttling and load are read.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


class DeviceQueue:
    """Gives exclusive use of the device by locking the file `path`; never waits without a path."""

    def __init__(self, path: str) -> None:
        self._path, self._depth = path, 0
        self.held = 0.0  #: Seconds for which the device was held alone.

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Until the context ends, no other case of the run uses the device."""
        if not self._path or self._depth:
            yield
            return
        with open(self._path, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            started, self._depth = time.monotonic(), 1
            try:
                yield
            finally:
                self._depth = 0
                self.held += time.monotonic() - started

    @contextmanager
    def alone_in(self, owner: type, name: str) -> Iterator[None]:
        """Until the context ends, the method `name` of `owner` runs with the device held alone.

        Without a path the method is unchanged, because a call on the CPU would be timed together
        with the microseconds of a wrapper.
        """
        if not self._path:
            yield
            return
        method = getattr(owner, name)

        def method_alone(*args: Any, **kwargs: Any) -> Any:
            with self.alone():
                return method(*args, **kwargs)

        with mock.patch.object(owner, name, method_alone):
            yield


# A device is warm when the times of two blocks in a row differ by less than this share. The second
# number is the maximum number of seconds to wait for that.
_SAME = 0.002
_SECONDS = 1.0
_STATE = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"


def warm_up(medians: Iterator[float]) -> str:
    """Take the median times of blocks until two in a row are about equal. Return a text about the
    outcome.
    """
    deadline = time.perf_counter() + _SECONDS
    before = next(medians)
    for blocks, now in enumerate(medians, 2):
        change = now / before - 1
        if abs(change) < _SAME:
            return f"warm after {blocks} blocks"
        if time.perf_counter() > deadline:
            return f"not steady after {blocks} blocks: {change:+.2%} in the last"
        before = now
    raise ValueError("there are no more blocks")


def device_state(device: str) -> str:
    """Return clocks, temperature, power and throttle reasons as the driver reports them; for the
    CPU, its load.
    """
    if device == "cpu":
        return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    try:
        command = ["nvidia-smi", f"--query-gpu={_STATE}", "--format=csv,noheader"]
        return (
            subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
            or "unknown"
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
