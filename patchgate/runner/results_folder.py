"""The folder of a run's results: one run holds it, the results of an earlier run are put aside, and
each judged cell is kept.

An interrupted run leaves its judged cells in a journal, which begins with the key of everything
that decides a verdict. Only the next run with that key takes them over.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TextIO

from patchgate.model.errors import UsageError
from patchgate.model.files import (
    HELD,
    PUT_ASIDE,
    make_results_folder,
    read_result,
    refuse_links,
    release_space,
    write_atomically,
)
from patchgate.model.policy import Kind
from patchgate.model.records import PATCH_RUN, Verdict
from patchgate.model.results import JudgedCell
from patchgate.model.serialization import from_dict, parse_json
from patchgate.runner.files_read import changed_since_read, take_over_notes
from patchgate.runner.run_settings import (
    NAME,
    OBSERVATIONS,
    VERDICTS,
    ResultStore,
    Run,
    is_complete,
    save_verdicts,
    verdict_json,
)

_JUDGED = "judged.jsonl"
# The folders of what the cells of a run measured.
_MEASURED = (OBSERVATIONS, "code", "times")
# Kinds of verdicts whose cells are judged again: the machine prevented the verdict, or a compiler
# could not write.
_AGAIN = {Kind.INFRA, Kind.STOPPED, Kind.UNMEASURED}
# The folders that this process holds.
_held: set[Path] = set()


# -- one run at a time


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep other processes from writing results in a folder until the context ends.

    Raises UsageError if another process, which the error names, holds the folder, or if there are
    links among its results.
    """
    folder = folder.resolve()
    if folder in _held:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder, 2)
    with _locked(folder / HELD):
        _held.add(folder)
        try:
            yield
        finally:
            _held.discard(folder)
            (folder / HELD).unlink(missing_ok=True)


def _locked(path: Path) -> TextIO:
    """Open and lock the file, and write the name of this process into it."""
    lock = open(path, "a+", encoding="utf-8")  # noqa: SIM115  its lock ends with it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        advice = "wait until it has ended, or another --folder"
        raise UsageError(
            "results of a run that goes on", where=str(path.parent), got=holder, next=advice
        ) from None
    if not path.exists() or not os.path.samestat(os.fstat(lock.fileno()), path.stat()):
        lock.close()
        return _locked(path)  # the lock was of a run that has just ended
    lock.truncate(0)
    with contextlib.suppress(OSError):  # a full disk: the lock is held nonetheless
        lock.write(f"process {os.getpid()}, since {time.strftime('%H:%M:%S')}\n")
        lock.flush()
    return lock


@contextlib.contextmanager
def results_folder(folder: Path, option: str) -> Iterator[None]:
    """Hold a command's folder, with all results of earlier runs put aside; a UsageError puts them
    back.

    Raises UsageError if the folder belongs to something else, or if another process holds it.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    make_results_folder(folder, option, mark=NAME)
    try:
        with held(folder), _put_aside_below(folder):
            yield
    except UsageError:
        with contextlib.suppress(OSError):  # a folder that is no longer empty stays
            for place in made:
                place.rmdir()
        raise


@contextlib.contextmanager
def _put_aside_below(folder: Path) -> Iterator[None]:
    """Put aside the results of several patches, each in a folder of its own below this one."""
    below = [mark.parent for mark in folder.glob(f"[!.]*/{NAME}")]
    for place in below:
        put_aside(place)
    put_aside(folder, but=below)
    try:
        yield
    except UsageError:
        for place in below:
            _put_back(place)
        _put_back(folder, but=below)
        raise


# -- what an earlier run left


def put_aside(folder: Path, but: Collection[Path] = ()) -> None:
    """Put aside everything in a run's folder, except `but`, that could be taken for the next run's
    results.

    Results that are already put aside stay if the run after them wrote no journal; the results of
    that run are deleted, and so is everything that cannot be put aside.
    """
    aside = folder / PUT_ASIDE
    entries = list(_entries(folder, but))
    if aside.is_dir() and not (folder / _JUDGED).is_file():
        _delete(entries)  # of a run that ended before its first cell
        return
    _delete([aside])
    try:
        if entries:
            aside.mkdir()
        # The journal is moved last: after an interrupt, the next run finds it here and puts the
        # rest aside.
        for entry in sorted(
            entries, key=lambda path: (path.name == _JUDGED, path.name != VERDICTS)
        ):
            entry.rename(aside / entry.name)
    except OSError:
        _delete([*_entries(folder, but), aside])


def _put_back(folder: Path, but: Collection[Path] = ()) -> None:
    aside = folder / PUT_ASIDE
    if aside.is_dir():
        _delete(_entries(folder, but))
        for entry in list(aside.iterdir()):
            entry.rename(folder / entry.name)
        delete(aside)


def _entries(folder: Path, but: Collection[Path]) -> Iterator[Path]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name not in (HELD, PUT_ASIDE) and path not in but:
            yield path


def delete(path: Path) -> None:
    """Remove a file, a link without its target, or a folder with everything below it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _delete(paths: Iterable[Path]) -> None:
    for path in list(paths):
        delete(path)


def cells_before(folder: Path) -> list[JudgedCell]:
    """The cells that were judged by the run that is put aside."""
    return _read(folder / PUT_ASIDE / _JUDGED)[1]


def seconds_before(folder: Path) -> dict[str, float]:
    """The seconds of each cell that the run that is put aside judged completely. Empty if the patch
    did not run: such a run says nothing about the next one's times.
    """
    cells = cells_before(folder)
    if any(verdict.item == PATCH_RUN for cell in cells for verdict in cell.verdicts):
        return {}  # without a patch that runs every cell ends early
    return {
        cell.name: cell.seconds
        for cell in cells
        if cell.verdicts and all(verdict.is_judged for verdict in cell.verdicts)
    }


# -- the cells of this run


class Journal:
    """The judged cells of a run, one a line, written by one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / _JUDGED

    def begin(self, key: str) -> list[JudgedCell]:
        """Start the journal of a key. Return the cells that an earlier run with this key has
        judged; the journal holds them already.
        """
        aside = self._folder / PUT_ASIDE
        found, cells = _read(aside / _JUDGED)
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
        _delete([aside])
        return cells

    def disown(self) -> None:
        """Let no later run take over the cells."""
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
        return _read(self._path)[1]

    @property
    def key(self) -> str:
        """The key of the run that wrote the journal; empty if there is none."""
        return _read(self._path)[0]


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


def save_results(run: Run, cells: Iterable[JudgedCell], more: Iterable[Verdict]) -> list[Verdict]:
    """Write the verdicts of a run's cells and `more`, and return them."""
    folder = Path(run.folder)
    release_space(folder)
    verdicts = [*(verdict for cell in cells for verdict in cell.verdicts), *more]
    return save_verdicts(folder, dict.fromkeys(verdicts))


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


def _read(path: Path) -> tuple[str, list[JudgedCell]]:
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
