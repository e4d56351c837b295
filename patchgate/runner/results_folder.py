"""The folder of a run's results. One run at a time holds it; the results of an earlier run are put
aside.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TextIO

from patchgate.model.errors import UsageError
from patchgate.model.files import (
    HELD,
    PUT_ASIDE,
    delete,
    make_results_folder,
    refuse_links,
    release_space,
)
from patchgate.model.records import PATCH_RUN, Verdict
from patchgate.model.results import JudgedCell
from patchgate.runner.journal import JUDGED, read_journal
from patchgate.runner.run_settings import (
    NAME,
    VERDICTS,
    Run,
    save_verdicts,
)

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
    """Hold a command's folder, and put aside all results of earlier runs. A UsageError of the
    command puts them back.

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
    """Put aside everything in a run's folder that could be taken for the next run's results, except
    `but`.

    If results are put aside already, and the run after them wrote no journal, they stay, and that
    run's results are deleted. Everything that cannot be put aside is deleted too.
    """
    aside = folder / PUT_ASIDE
    entries = list(_entries(folder, but))
    if aside.is_dir() and not (folder / JUDGED).is_file():
        _delete(entries)  # of a run that ended before its first cell
        return
    _delete([aside])
    try:
        if entries:
            aside.mkdir()
        # The journal is moved last: after an interrupt, the next run finds it here and puts the
        # rest aside.
        for entry in sorted(entries, key=lambda path: (path.name == JUDGED, path.name != VERDICTS)):
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


def _delete(paths: Iterable[Path]) -> None:
    for path in list(paths):
        delete(path)


def cells_before(folder: Path) -> list[JudgedCell]:
    """Return the cells judged by the run whose results are put aside."""
    return read_journal(folder / PUT_ASIDE / JUDGED)[1]


def seconds_before(folder: Path) -> dict[str, float]:
    """Return the seconds of each cell that the run put aside has judged completely. Empty if its
    patch did not run: such a run says nothing about the next run's times.
    """
    cells = cells_before(folder)
    if any(verdict.item == PATCH_RUN for cell in cells for verdict in cell.verdicts):
        return {}  # if the patch does not run, every cell ends early
    return {
        cell.name: cell.seconds
        for cell in cells
        if cell.verdicts and all(verdict.is_judged for verdict in cell.verdicts)
    }


def save_results(run: Run, cells: Iterable[JudgedCell], more: Iterable[Verdict]) -> list[Verdict]:
    """Write the verdicts of a run's cells and `more`, and return them."""
    folder = Path(run.folder)
    release_space(folder)
    verdicts = [*(verdict for cell in cells for verdict in cell.verdicts), *more]
    return save_verdicts(folder, dict.fromkeys(verdicts))
