"""A lock for each key: threads that want the same answer ask for it once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Locks:
    """Calling it with a key gives a context that only one thread at a time can enter."""

    def __init__(self) -> None:
        self._all = threading.Lock()
        self._by_key: dict[str, threading.Lock] = {}

    @contextlib.contextmanager
    def __call__(self, key: str) -> Iterator[None]:
        with self._all:
            lock = self._by_key.setdefault(key, threading.Lock())
        with lock:
            yield
