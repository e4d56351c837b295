"""Observations of one run, a file a case, written atomically.

Decides where they lie. A store belongs to one run, so whatever is in it was
measured by this code on this machine just now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgate.errors import UsageError
from patchgate.files import write_atomically
from patchgate.model import Case, Observation
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


def _read(path: Path) -> Observation:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError("not an observation", where=str(path), got=str(error), next="run the gate again") from None
    return from_dict(Observation, data, where=str(path))
