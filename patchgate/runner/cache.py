"""What was measured once, kept between runs by content key (`patchgate.runner.identity`).

An entry is a JSON file, and beside it at most one file that belongs to it: generated code, or the tensors of an answer.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgate.model.files import write_atomically
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Observation
from patchgate.model.serialization import from_dict, to_dict


@dataclass(frozen=True)
class Cache:
    """A folder of entries; processes may share it."""

    folder: Path  #: made when the first entry is saved

    def load(self, key: str, file: Path | None = None) -> dict[str, Any] | None:
        """The entry, or None. Its file, if it has one, is put at `file`."""
        entry, stored = self._paths(key)
        if not entry.is_file():
            return None
        if file and stored.is_file():
            _replace(file, stored, _link)
        content: dict[str, Any] = json.loads(entry.read_text(encoding="utf-8"))
        return content

    def save(self, key: str, content: dict[str, Any], file: Path | None = None) -> None:
        """Keep an entry, and a copy of `file` if there is one."""
        entry, stored = self._paths(key)
        if file and file.is_file():
            _replace(stored, file, shutil.copyfile)
        write_atomically(entry, json.dumps(content) + "\n")  # last: whoever sees the entry finds its file

    def load_observation(self, key: str, code: Path) -> Observation | None:
        """The observation, or None. Its generated code is put at `code`."""
        content = self.load(key, code)
        if content is None:
            return None
        observation = from_dict(Observation, content, where=str(self.folder))
        return replace(observation, artifacts={"code": shown(code)}) if observation.artifacts else observation

    def save_observation(self, key: str, observation: Observation, code: Path) -> None:
        """Keep it and its code, unless the machine failed: that says nothing of the next time."""
        if observation.failure and observation.failure.cause is Cause.MACHINE:
            return
        artifacts = {"code": ""} if "code" in observation.artifacts else {}
        self.save(key, to_dict(replace(observation, artifacts=artifacts)), code if artifacts else None)

    def _paths(self, key: str) -> tuple[Path, Path]:
        folder = self.folder / key[:2]
        return folder / f"{key}.json", folder / f"{key}.file"


def _replace(target: Path, source: Path, copy: Callable[[Path, Path], object]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder, target.name)
        copy(source, made)
        os.replace(made, target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copyfile(source, target)
