"""The journal of a run: each cell is written into it as soon as it is judged.

The journal begins with the key of everything that decides a verdict. If a run is interrupted, the
next run takes over the judged cells only if it has the same key.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from patchgate.model.errors import UsageError
from patchgate.model.files import PUT_ASIDE, delete, read_result, release_space, write_atomically
from patchgate.model.policy import Kind
from patchgate.model.results import JudgedCell
from patchgate.model.serialization import from_dict, parse_json
from patchgate.runner.files_read import changed_since_read, take_over_notes
from patchgate.runner.run_settings import OBSERVATIONS, ResultStore, is_complete, verdict_json

JUDGED = "judged.jsonl"
# The folders of the measurements of a run's cells.
_MEASURED = (OBSERVATIONS, "code", "times")
# Kinds of verdicts whose cells are judged again: the machine prevented the verdict, or a compiler
# could not write.
_AGAIN = {Kind.INFRA, Kind.STOPPED, Kind.UNMEASURED}


class Journal:
    """The judged cells of a run, one per line, written by one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / JUDGED

    def begin(self, key: str) -> list[JudgedCell]:
        """Start the journal of a key. Return the cells that an earlier run with this key has
        judged; the journal holds them already.
        """
        aside = self._folder / PUT_ASIDE
        found, cells = read_journal(aside / JUDGED)
        if found != key or is_complete(aside) or changed_since_read(aside):
            cells = []
        if cells:
            take_over_notes(aside, self._folder)
            for name in _MEASURED:
                _take_over(aside / name, self._folder / name)
            _forget_failures(ResultStore(self._folder / OBSERVATIONS))
        cells = [
            cell for cell in cells if not any(verdict.kind in _AGAIN for verdict in cell.verdicts)
        ]
        self._write(key, cells)
        delete(aside)
        return cells

    def disown(self) -> None:
        """Keep later runs from taking over the cells."""
        self._write("", self.cells())

    def _write(self, key: str, cells: Iterable[JudgedCell]) -> None:
        lines = (json.dumps({"key": key}), *map(_line, cells))
        write_atomically(self._path, "".join(f"{line}\n" for line in lines))

    def append(self, cell: JudgedCell) -> None:
        """Append a cell. On a full disk, use the space that was reserved.

        Raises OSError if the reserved space does not help.
        """
        text = f"{_line(cell)}\n".encode()
        try:
            _append(self._path, text)
        except OSError:
            release_space(self._folder)
            _append(self._path, text)

    def cells(self) -> list[JudgedCell]:
        """The cells that this run has judged or taken over."""
        return read_journal(self._path)[1]

    @property
    def key(self) -> str:
        """The key of the run that wrote the journal; empty if there is none."""
        return read_journal(self._path)[0]


def _take_over(old: Path, new: Path) -> None:
    """Move the entries of a folder into another, where this run may already have some."""
    if not old.is_dir():
        return
    new.mkdir(exist_ok=True)
    for entry in old.iterdir():
        if not (new / entry.name).exists():
            entry.rename(new / entry.name)


def _forget_failures(store: ResultStore) -> None:
    """Delete observations of failures: their process may have been killed."""
    for observation in store:
        if observation.failure:
            store.remove(observation.case)


def _line(cell: JudgedCell) -> str:
    verdicts = ", ".join(map(verdict_json, cell.verdicts))
    return (
        f'{{"name": {json.dumps(cell.name)}, "seconds": {cell.seconds}, "verdicts": [{verdicts}]}}'
    )


def _append(path: Path, text: bytes) -> None:
    with open(path, "ab", buffering=0) as file:
        size = file.tell()
        if file.write(text) != len(text):
            file.truncate(size)
            raise OSError(f"{path}: only a part could be written")


def read_journal(path: Path) -> tuple[str, list[JudgedCell]]:
    """Read (key, cells) of a journal; the last line may be incomplete if its writer was killed."""
    try:
        first, *rest = read_result(path).splitlines(keepends=True)
        key, cells = str(parse_json(first)["key"]), list[JudgedCell]()
    except (OSError, ValueError, KeyError, TypeError):
        return "", []
    with contextlib.suppress(ValueError, UsageError):
        for line in rest:
            cells.append(from_dict(JudgedCell, parse_json(line), where=str(path)))
    return key, cells
