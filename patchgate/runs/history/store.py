"""What was judged over time: an embedded SQLite file of runs, verdicts and observations.

Decides the tables, and that nothing is kept twice: a night that is like the one before costs a line a check and
case. Write-ahead logging, so that a reader never waits for a sweep.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.records import Observation, Verdict
from patchgate.model.serialization import fact_to, to_dict
from patchgate.model.versions import release_line

# `content` holds the facts of an observation, or all that a check said of one patch on one torch.
_TABLES = """
CREATE TABLE IF NOT EXISTS run (id TEXT PRIMARY KEY, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS content (digest BLOB PRIMARY KEY, told BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS judged (
  run TEXT NOT NULL, patch TEXT NOT NULL, torch TEXT NOT NULL, chk TEXT NOT NULL, verdicts BLOB NOT NULL,
  colour TEXT NOT NULL, PRIMARY KEY (run, patch, torch, chk, verdicts)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS observed (
  workload TEXT NOT NULL, device TEXT NOT NULL, run TEXT NOT NULL, torch TEXT NOT NULL, patch TEXT NOT NULL,
  facts BLOB NOT NULL, PRIMARY KEY (workload, device, run, torch, patch, facts)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cost (
  patch TEXT NOT NULL, torch TEXT NOT NULL, run TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (patch, torch, run)
) WITHOUT ROWID;
"""
_NAMES = ("run", "content", "judged", "observed", "cost")
_FORMAT = 2
UNPATCHED = "unpatched"
Judged = tuple[str, str, str]
Cells = dict[tuple[str, str, str, str], tuple[str, str, str]]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a series: what a fact was in one run."""

    at: str
    torch: str
    patch: str
    value: str


class History:
    """Runs in the order of their time; `path` is made when it is not there."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path, timeout=60)
        # What was read once: most runs say of most what the run before said.
        self._values: dict[bytes, dict[str, str]] = {}
        self._said: dict[tuple[Judged, frozenset[bytes]], Cells] = {}
        try:
            self._file.execute("PRAGMA journal_mode = WAL")
            self._prepare()
        except (sqlite3.DatabaseError, ValueError) as error:
            self._file.close()
            raise UsageError("not a history", where=str(path), got=str(error), next="another --folder") from None

    def _prepare(self) -> None:
        (made,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (number,) = self._file.execute("PRAGMA user_version").fetchone()
        if made and number != _FORMAT:
            raise ValueError(f"tables of format {number}, this patchgate writes {_FORMAT}")
        # All or nothing: a process that is killed here leaves no tables without their format.
        self._file.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {_FORMAT};COMMIT;")

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[sqlite3.Connection]:
        with self._file:
            yield self._file

    def record(self, run: str, at: str, patch: str, verdicts: list[Verdict], observations: list[Observation]) -> None:
        """Keep what one patch was given in a run; again is the same as once."""
        with self._all_or_nothing() as file:
            file.execute("INSERT OR IGNORE INTO run VALUES (?, ?)", (run, at))
            for (torch, check), told in groupby(sorted(verdicts, key=_place), key=lambda v: (v.torch, v.check)):
                said = list(told)
                worst = max(v.colour.value for v in said)  # green < grey < red, also as words
                key = _keep(file, [to_dict(v) | {"colour": v.colour.value} for v in said])
                file.execute(
                    "INSERT OR IGNORE INTO judged VALUES (?,?,?,?,?,?)", (run, patch, torch, check, key, worst)
                )
            for o in observations:
                case = o.case
                key = _keep(file, {name: fact_to(value) for name, value in o.facts.items()})
                row = (case.workload, case.device, run, case.torch, case.patch or UNPATCHED, key)
                file.execute("INSERT OR IGNORE INTO observed VALUES (?,?,?,?,?,?)", row)

    def _told(self, digest: bytes) -> Any:
        (told,) = self._file.execute("SELECT told FROM content WHERE digest = ?", (digest,)).fetchone()
        return json.loads(zlib.decompress(told))

    def _facts(self, digest: bytes) -> dict[str, str]:
        if digest not in self._values:
            self._values[digest] = {name: json.dumps(value) for name, value in self._told(digest).items()}
        return self._values[digest]

    def spend(self, run: str, patch: str, torch: str, seconds: float) -> None:
        """Keep how long one patch took to be judged on one torch."""
        with self._all_or_nothing() as file:
            file.execute("INSERT OR REPLACE INTO cost VALUES (?,?,?,?)", (patch, torch, run, seconds))

    def costs(self) -> dict[tuple[str, str], float]:
        """(patch, torch) -> the seconds that it took when it was last judged anew."""
        asked = "SELECT patch, torch, seconds FROM cost JOIN run ON run.id = cost.run ORDER BY run.at, run.id"
        return {(patch, torch): seconds for patch, torch, seconds in self._file.execute(asked)}

    def runs(self) -> list[tuple[str, str]]:
        """(id, time) of every run, oldest first."""
        return list(self._file.execute("SELECT id, at FROM run ORDER BY at, id"))

    def series(self, workload: str, device: str, fact: str, patch: str | None = None) -> list[Point]:
        """Each value of a fact, oldest first."""
        asked = (
            "SELECT run.at, torch, patch, facts FROM observed JOIN run ON run.id = observed.run"
            " WHERE workload = ? AND device = ? AND (? IS NULL OR patch = ?) ORDER BY run.at, torch, patch"
        )
        found = self._file.execute(asked, (workload, device, patch, patch))
        return [
            Point(at=at, torch=release_line(torch), patch=whose, value=facts[fact])
            for at, torch, whose, digest in found
            if fact in (facts := self._facts(digest))
        ]

    def past(self, workload: str, device: str, runs: int) -> dict[tuple[str, str, str], list[str]]:
        """(torch, patch, fact) -> its values in the last so many runs, oldest first."""
        asked = "SELECT torch, patch, facts FROM observed WHERE workload = ? AND device = ? AND run = ?"
        found: dict[tuple[str, str, str], list[str]] = {}
        for run, _ in self.runs()[-runs:]:
            for torch, patch, digest in self._file.execute(asked, (workload, device, run)):
                for fact, value in self._facts(digest).items():
                    found.setdefault((release_line(torch), patch, fact), []).append(value)
        return found

    def recent(self, runs: int) -> list[Cells]:
        """(patch, torch, check, subject) -> (worst colour, code, actual) in each of the last runs, oldest first.

        Without the checks that were green of a patch on a torch, and said the same, in all of these runs.
        """
        asked = "SELECT patch, torch, chk, verdicts, colour FROM judged WHERE run = ?"
        told: list[dict[Judged, frozenset[bytes]]] = []
        moved: set[Judged] = set()
        for run, _ in self.runs()[-runs:]:
            one: dict[Judged, frozenset[bytes]] = {}
            for patch, torch, check, digest, colour in self._file.execute(asked, (run,)):
                key = patch, release_line(torch), check
                one[key] = one.get(key, frozenset()) | {digest}
                moved |= {key} if colour != "green" else set()
            told.append(one)
        for one in told[1:]:
            moved |= {key for key in one.keys() | told[0].keys() if one.get(key) != told[0].get(key)}
        return [self._cells({key: said for key, said in one.items() if key in moved}) for one in told]

    def _cells(self, judged: dict[Judged, frozenset[bytes]]) -> Cells:
        cells: Cells = {}
        for key, digests in judged.items():
            if (key, digests) not in self._said:
                self._said[key, digests] = _worst(key, [each for digest in digests for each in self._told(digest)])
            cells |= self._said[key, digests]
        return cells

    def counts(self) -> dict[str, int]:
        """Rows by table."""
        return {name: self._file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in _NAMES}

    def merge(self, other: Path) -> None:
        """Take in every row of another machine's history; what is here already stays once."""
        if not other.is_file():
            raise UsageError("no history to merge", where=str(other), got="nothing there", next="history --merge FILE")
        History(other).close()  # its tables, and that it is a history at all
        self._file.execute("ATTACH ? AS other", (str(other),))
        with self._all_or_nothing() as file:
            for table in _NAMES:
                file.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}")
        self._file.execute("DETACH other")

    def export(self, path: Path) -> None:
        """A copy in one file, also while a sweep writes."""
        with sqlite3.connect(path) as copy:
            self._file.backup(copy)
        copy.close()


def _place(verdict: Verdict) -> tuple[str, ...]:
    return verdict.torch, verdict.check, verdict.subject, verdict.code, verdict.actual


def _worst(key: Judged, said: list[dict[str, str]]) -> Cells:
    """Cell -> its worst verdict, of all that was said of one check."""
    cells: Cells = {}
    for each in said:
        cell, told = (*key, each["subject"]), (each["colour"], each["code"], each["actual"])
        cells[cell] = max(told, cells.get(cell, told))
    return cells


def _keep(file: sqlite3.Connection, told: Any) -> bytes:
    """The digest under which it is kept, once."""
    text = json.dumps(told, sort_keys=True).encode()
    digest = hashlib.sha256(text).digest()[:16]
    file.execute("INSERT OR IGNORE INTO content VALUES (?, ?)", (digest, zlib.compress(text)))
    return digest
