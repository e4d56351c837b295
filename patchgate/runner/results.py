"""Observations in files, written atomically: a store of one run by case, a shelf of many runs by content.

Decides where they lie. A store belongs to one run, so whatever is in it was
measured by this code on this machine just now; a shelf's key says the same of another time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import shown
from patchgate.model.records import Case, Cause, Observation
from patchgate.model.serialization import from_dict, to_dict


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
    """A folder of observations by content key (`patchgate.runner.identity`)."""

    folder: Path

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def load(self, key: str, code: Path) -> Observation | None:
        """The observation, with the code that was generated put where this run keeps it."""
        path = self._path(key)
        if not path.is_file():
            return None
        found, kept = _read(path), path.with_suffix(".py")
        if not kept.is_file():
            return found
        write_atomically(code, kept.read_text(encoding="utf-8"))
        return replace(found, artifacts={"code": shown(code)})

    def save(self, key: str, observation: Observation, code: Path) -> None:
        """Keep it and its code, unless the machine failed: that says nothing of the next time."""
        if observation.failure and observation.failure.cause is Cause.MACHINE:
            return
        path = self._path(key)
        if "code" in observation.artifacts:
            write_atomically(path.with_suffix(".py"), code.read_text(encoding="utf-8"))
        write_atomically(path, json.dumps(to_dict(replace(observation, artifacts={})), indent=1, sort_keys=True) + "\n")


@dataclass(frozen=True)
class Answers:
    """A folder of answers by content key, each with the file of tensors that the probe wrote beside it, if any."""

    folder: Path

    def load(self, key: str, outputs: Path | None) -> dict[str, Any] | None:
        """The answer, with its file put at `outputs`."""
        kept, told = self._paths(key)
        if not told.is_file():
            return None
        if outputs and kept.is_file():
            outputs.unlink(missing_ok=True)
            os.link(kept, outputs)
        answer: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        return answer

    def save(self, key: str, answer: dict[str, Any], outputs: Path | None) -> None:
        kept, told = self._paths(key)
        kept.parent.mkdir(parents=True, exist_ok=True)
        if outputs and outputs.is_file():
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                os.replace(shutil.copyfile(outputs, Path(folder, kept.name)), kept)
        write_atomically(told, json.dumps(answer) + "\n")  # last: with it the file is there

    def _paths(self, key: str) -> tuple[Path, Path]:
        path = self.folder / key[:2] / key
        return path.with_suffix(".pt"), path.with_suffix(".json")


def _read(path: Path) -> Observation:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError("not an observation", where=str(path), got=str(error), next="run the gate again") from None
    return from_dict(Observation, data, where=str(path))
