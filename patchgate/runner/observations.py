"""The observations of one run, a file a case: whatever is there was measured by this code on this
machine just now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgate.model.errors import UsageError
from patchgate.model.files import read_regular, write_atomically
from patchgate.model.records import Case, Observation
from patchgate.model.serialization import from_dict, parse_json, to_dict

# Of an observation.
_BYTES = 64 << 20


@dataclass(frozen=True)
class ResultStore:
    """A folder of observations by case."""

    folder: Path

    def _path(self, case: Case) -> Path:
        return self.folder / f"{case.id}.json"

    def load(self, case: Case) -> Observation | None:
        path = self._path(case)
        return _read(path) if path.is_file() else None

    def save(self, observation: Observation) -> None:
        text = json.dumps(to_dict(observation), indent=1, sort_keys=True)
        write_atomically(self._path(observation.case), text + "\n")

    def remove(self, case: Case) -> None:
        self._path(case).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Observation]:
        return (_read(path) for path in sorted(self.folder.glob("*.json")))


def _read(path: Path) -> Observation:
    try:
        data = parse_json(read_regular(path, _BYTES).decode())
    except (OSError, ValueError) as error:
        raise UsageError(
            "not an observation", where=str(path), got=str(error), next="run the gate again"
        ) from None
    return from_dict(Observation, data, where=str(path))
