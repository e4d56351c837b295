"""A list that holds each value once, so that what is often the same is written once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Once:
    """A list that holds each value once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Hashable, int] = {}

    def place(self, value: Hashable) -> int:
        """Where the value is; it is added when it is not there yet."""
        if value not in self._places:
            self._places[value] = len(self.values)
            self.values.append(value)
        return self._places[value]
