"""The cells of a run as they are judged, a line each: what is left of a run that did not end.

The next run of the same content takes them over; one of another content begins with none.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from patchgate.model.errors import UsageError
from patchgate.model.files import release_space, write_atomically
from patchgate.model.records import Kind, Verdict
from patchgate.model.results import CellEvent
from patchgate.model.serialization import from_dict, parse_json, to_dict
from patchgate.runner.run_settings import TIMES, Run, is_complete, save_verdicts

_JUDGED = "judged.jsonl"
# What an earlier run left, until this one has read it.
_BEFORE = "judged.before.jsonl"
# The folders of what its cells measured.
_MEASURED = ("observations", "code", "times")
# What the machine kept from being judged is tried again; a compiler that could not write shows as not measured.
_AGAIN = {Kind.INFRA, Kind.STOPPED, Kind.UNMEASURED}


class Journal:
    """The file of judged cells in a run's folder, which one process writes."""

    def __init__(self, run: Run) -> None:
        self._folder, self._store = Path(run.folder), run.store
        self._path, self._before = self._folder / _JUDGED, self._folder / _BEFORE

    def put_aside(self) -> None:
        """Empty the folder before a run; the cells of a run that did not end, and what they measured, stay."""
        if self._path.is_file() and not is_complete(self._folder):
            os.replace(self._path, self._before)
        kept = (_BEFORE, *_MEASURED) if self._before.is_file() else ()
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def begin(self, key: str) -> list[CellEvent]:
        """Start the journal of a content; the cells that an earlier run of it has judged, which are in it already."""
        found, cells = _read(self._before)
        if found != key:
            cells = []
            for name in _MEASURED:
                shutil.rmtree(self._folder / name, ignore_errors=True)
        for observation in self._store:
            if observation.failure:  # perhaps of what was killed
                self._store.remove(observation.case)
        cells = [cell for cell in cells if not any(verdict.kind in _AGAIN for verdict in cell.verdicts)]
        write_atomically(self._path, "".join(f"{line}\n" for line in (json.dumps({"key": key}), *map(_line, cells))))
        self._before.unlink(missing_ok=True)
        return cells

    def append(self, cell: CellEvent) -> None:
        """Add a cell. On a full disk the space that the run has reserved is used."""
        text = f"{_line(cell)}\n".encode()
        try:
            _append(self._path, text)
        except OSError:
            release_space(self._folder)
            _append(self._path, text)

    def cells(self) -> list[CellEvent]:
        """Those that this run has judged, and those that it took over."""
        return _read(self._path)[1]


def save_results(run: Run, cells: Iterable[CellEvent], more: Iterable[Verdict] = ()) -> None:
    """Write the verdicts of a run, those of its cells and `more`, and how long each cell took."""
    folder, cells = Path(run.folder), list(cells)
    release_space(folder)
    save_verdicts(folder, list(dict.fromkeys([*(verdict for cell in cells for verdict in cell.verdicts), *more])))
    times = {cell.ended: cell.seconds for cell in cells}
    write_atomically(folder / TIMES, json.dumps(times, indent=1) + "\n")


def _line(cell: CellEvent) -> str:
    return json.dumps(to_dict(cell))


def _append(path: Path, text: bytes) -> None:
    with open(path, "ab", buffering=0) as file:
        size = file.tell()
        if file.write(text) != len(text):
            file.truncate(size)
            raise OSError(f"{path}: only a part could be written")


def _read(path: Path) -> tuple[str, list[CellEvent]]:
    """(key, cells) of a journal; of one whose writer was killed without its last line."""
    try:
        first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
        return str(parse_json(first)["key"]), list(_cells(rest, path))
    except (OSError, ValueError, KeyError, TypeError):
        return "", []


def _cells(lines: list[str], path: Path) -> Iterator[CellEvent]:
    for line in lines:
        try:
            yield from_dict(CellEvent, parse_json(line), where=str(path))
        except (ValueError, UsageError):
            return
