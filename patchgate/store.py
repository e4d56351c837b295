"""Observations in files, written atomically: a store of one run by case, a shelf of many runs by content.

Decides where they lie. A store belongs to one run, so whatever is in it was
measured by this code on this machine just now; a shelf's key says the same of another time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgate.errors import UsageError
from patchgate.files import write_atomically
from patchgate.model import Case, Cause, Observation
from patchgate.wire import from_dict, to_dict


@dataclass(frozen=True)
class Store:
    """A folder of observations."""

    folder: Path

    def _path(self, case: Case) -> Path:
        return self.folder / f"{case.id}.json"

    def load(self, case: Case) -> Observation | None:
        path = self._path(case)
        return _read(path) if path.is_file() else None

    def save(self, observation: Observation) -> None:
        text = json.dumps(to_dict(observation), indent=1, sort_keys=True)
        write_atomically(self._path(observation.case), text + "\n")

    def __iter__(self) -> Iterator[Observation]:
        return (_read(path) for path in sorted(self.folder.glob("*.json")))


@dataclass(frozen=True)
class Shelf:
    """A folder of observations by content key (`patchgate.identity`)."""

    folder: Path

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def load(self, key: str) -> Observation | None:
        path = self._path(key)
        return _read(path) if path.is_file() else None

    def save(self, key: str, observation: Observation) -> None:
        """Keep it, unless the machine failed: that says nothing of the next time."""
        if observation.failure is None or observation.failure.cause is not Cause.MACHINE:
            write_atomically(self._path(key), json.dumps(to_dict(observation), indent=1, sort_keys=True) + "\n")


def _read(path: Path) -> Observation:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError("not an observation", where=str(path), got=str(error), next="run the gate again") from None
    return from_dict(Observation, data, where=str(path))
