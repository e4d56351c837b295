"""The files and folders that a run's patch has read, in the folder of its results.

No content key covers these files, so the verdicts hold only while the files are unchanged. Their
content is not noted here: a patch chooses the files, and anybody may see the results.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from patchgate.model.files import read_result
from patchgate.model.serialization import parse_json

# JSON lines, each a path and the state of its file.
_NAME = "read.jsonl"


def note_read(folder: Path, files: Iterable[str]) -> None:
    """Note files and folders that a child has read, as they are now."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _NAME, "a", encoding="utf-8") as notes:
        notes.writelines(json.dumps([file, _state(file)]) + "\n" for file in files)


def changed_since_read(folder: Path) -> list[str]:
    """The noted files that have changed, and everything that cannot be compared."""
    notes = folder / _NAME
    try:
        lines = read_result(notes).splitlines() if notes.exists() else []
        noted = dict(map(parse_json, reversed(lines)))  # the first note of each file counts
        return [file for file, state in noted.items() if not state or _state(file) != state]
    except (OSError, ValueError, TypeError):
        return [str(notes)]


def take_over_notes(old: Path, new: Path) -> None:
    """Append the notes of an earlier run to those of the new run."""
    if (old / _NAME).is_file():
        with open(new / _NAME, "ab") as notes:
            notes.write((old / _NAME).read_bytes())


def _state(file: str) -> list[int]:
    """Numbers that an edit changes, even one that keeps the size and the time; empty if there is no
    such file.
    """
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(file)
        return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    return []
