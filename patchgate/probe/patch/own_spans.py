"""Tells the changes by a patch from the changes by its package, while the package is imported.

The patch's own code is its file, and the functions that install it if the package calls them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from patchgate.probe.patch.effects import Settings
from patchgate.probe.patch.snapshot import Snapshot, take_snapshot
from patchgate.probe.patch.torch_imports import add_changes

_State = tuple[Snapshot, Settings]


class OwnSpans:
    """Records the states of torch and the settings where the patch's own code begins and ends."""

    def __init__(self, path: str, calls: Collection[str]) -> None:
        self._path = path
        functions = [call.partition("(")[0].rpartition(":") for call in calls]
        self._names = {(owner, name.rpartition(".")[2]) for owner, _, name in functions}
        self._states, self._depth = [_state()], 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the block as code of the patch."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count functions that install the patch as its own code, until the end of the block."""

        def profile(frame: FrameType, event: str, _: Any) -> None:
            if event in ("call", "return") and self._is_own(frame):
                (self._begin if event == "call" else self._end)()

        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def add_others(self, before: Snapshot, settings: Settings) -> None:
        """Add the changes that other code made to the state before the patch."""
        states = [*self._states, _state()]
        for (old, was), (new, now) in zip(states[::2], states[1::2], strict=True):
            add_changes(before, old, new)
            settings.add_changes(was, now)

    def _is_own(self, frame: FrameType) -> bool:
        owner = "" if frame.f_code.co_filename == self._path else frame.f_globals.get("__name__")
        return (owner, frame.f_code.co_name) in self._names

    def _begin(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._states.append(_state())

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._states.append(_state())


def _state() -> _State:
    return take_snapshot(), Settings()
