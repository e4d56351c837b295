"""What was judged over time: an embedded SQLite file of runs and their verdicts.

Decides the tables, and that nothing is kept twice: a row is its content.
Write-ahead logging, so that a reader never waits for a sweep.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from patchgate.errors import UsageError
from patchgate.model import Observation, Verdict
from patchgate.wire import fact_to, to_dict

_TABLES = """
CREATE TABLE IF NOT EXISTS run (id TEXT PRIMARY KEY, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS verdict (
  run TEXT NOT NULL, patch TEXT NOT NULL, torch TEXT NOT NULL, chk TEXT NOT NULL, subject TEXT NOT NULL,
  code TEXT NOT NULL, kind TEXT NOT NULL, colour TEXT NOT NULL, actual TEXT NOT NULL, record TEXT NOT NULL,
  PRIMARY KEY (run, patch, torch, chk, subject, code)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (
  name TEXT NOT NULL, workload TEXT NOT NULL, device TEXT NOT NULL, torch TEXT NOT NULL, patch TEXT NOT NULL,
  run TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (workload, device, name, torch, patch, run)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS fact_run ON fact (run);
CREATE TABLE IF NOT EXISTS cost (
  patch TEXT NOT NULL, torch TEXT NOT NULL, run TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (patch, torch, run)
) WITHOUT ROWID;
"""
_NAMES = ("run", "verdict", "fact", "cost")
UNPATCHED = "unpatched"


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
        try:
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.executescript(_TABLES)
        except sqlite3.DatabaseError as error:
            raise UsageError("not a history", where=str(path), got=str(error), next="another --history FILE") from None

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[sqlite3.Connection]:
        with self._file:
            yield self._file

    def record(self, run: str, at: str, patch: str, verdicts: list[Verdict], observations: list[Observation]) -> None:
        """Keep what one patch was given in a run; again is the same as once."""
        facts = [
            (
                name,
                o.case.workload,
                o.case.device,
                o.case.torch,
                o.case.patch or UNPATCHED,
                run,
                json.dumps(fact_to(value)),
            )
            for o in observations
            for name, value in o.facts.items()
        ]
        rows = [
            (
                run,
                patch,
                v.torch,
                v.check,
                v.subject,
                v.code,
                v.kind.value,
                v.colour.value,
                v.actual,
                json.dumps(to_dict(v)),
            )
            for v in verdicts
        ]
        with self._all_or_nothing() as file:
            file.execute("INSERT OR IGNORE INTO run VALUES (?, ?)", (run, at))
            file.executemany("INSERT OR IGNORE INTO verdict VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
            file.executemany("INSERT OR IGNORE INTO fact VALUES (?,?,?,?,?,?,?)", facts)

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
            "SELECT run.at, fact.torch, fact.patch, fact.value FROM fact JOIN run ON run.id = fact.run"
            " WHERE workload = ? AND device = ? AND name = ? AND (? IS NULL OR patch = ?) ORDER BY run.at, fact.torch"
        )
        found = self._file.execute(asked, (workload, device, fact, patch, patch))
        return [Point(at=at, torch=torch, patch=whose, value=value) for at, torch, whose, value in found]

    def past(self, workload: str, device: str, runs: int) -> dict[tuple[str, str, str], list[str]]:
        """(torch, patch, fact) -> its values in the last so many runs, oldest first."""
        asked = (
            "SELECT fact.torch, fact.patch, fact.name, fact.value FROM fact"
            " JOIN (SELECT id, at FROM run ORDER BY at DESC, id DESC LIMIT ?) AS late ON late.id = fact.run"
            " WHERE workload = ? AND device = ? ORDER BY late.at, late.id"
        )
        found: dict[tuple[str, str, str], list[str]] = {}
        for *key, value in self._file.execute(asked, (runs, workload, device)):
            found.setdefault((key[0], key[1], key[2]), []).append(value)
        return found

    def cells(self, run: str) -> dict[tuple[str, str, str, str], tuple[str, str, str]]:
        """(patch, torch, check, subject) -> (worst colour, code, actual) of one run."""
        asked = "SELECT patch, torch, chk, subject, colour, code, actual FROM verdict WHERE run = ? ORDER BY colour"
        # green < grey < red, also as words: the worst comes last and stays.
        return {
            (patch, torch, check, subject): (colour, code, actual)
            for patch, torch, check, subject, colour, code, actual in self._file.execute(asked, (run,))
        }

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
