"""One process at a time on the device: a file is locked while generated code runs, is tuned, or is
timed.

Everything else of a case, above all what it compiles, goes on beside the other cases of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock


class DeviceQueue:
    """Waits its turn at the lock of the file `path`; without a path there is nobody to wait for."""

    def __init__(self, path: str) -> None:
        self._path, self._depth = path, 0
        self.held = 0.0  #: Seconds for which the device was held alone.

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Within it no other case of the run uses the device."""
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

    @contextlib.contextmanager
    def alone_in(self, owner: type, name: str) -> Iterator[None]:
        """Within it, the method of that name runs while the device is held alone.

        Without a path it stays as it is: a wrapper takes microseconds, which a call on the CPU
        would be timed with.
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
