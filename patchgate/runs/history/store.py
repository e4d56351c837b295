"""The history of verdicts: an SQLite file of runs, verdicts, facts and costs.

Nothing is stored twice: a night that equals the previous one costs a line for each check and case
(docs/sweep.md has sizes and times). With write-ahead logging, a reader never waits for a sweep.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.facts import UNPATCHED
from patchgate.model.records import Observation, Verdict
from patchgate.model.results import Point, RunVerdicts, VerdictKey, VerdictSummary
from patchgate.model.serialization import fact_to, parse_json, to_dict
from patchgate.model.versions import release_line

# `content` holds the facts of an observation, or all that a check said of one patch on one torch.
_TABLES = """
CREATE TABLE IF NOT EXISTS run (id TEXT PRIMARY KEY, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS content (digest BLOB PRIMARY KEY, told BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS judged (
  run TEXT NOT NULL, patch TEXT NOT NULL, torch TEXT NOT NULL, chk TEXT NOT NULL,
  verdicts BLOB NOT NULL, colour TEXT NOT NULL, PRIMARY KEY (run, patch, torch, chk, verdicts)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS observed (
  workload TEXT NOT NULL, device TEXT NOT NULL, run TEXT NOT NULL, torch TEXT NOT NULL,
  patch TEXT NOT NULL, facts BLOB NOT NULL, PRIMARY KEY (workload, device, run, torch, patch, facts)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cost (
  patch TEXT NOT NULL, torch TEXT NOT NULL, run TEXT NOT NULL, seconds REAL NOT NULL,
  PRIMARY KEY (patch, torch, run)
) WITHOUT ROWID;
"""
_NAMES = ("run", "content", "judged", "observed", "cost")
_FORMAT = 2
# Seconds for which another process may keep the file locked.
_PATIENCE = 60
# The maximum bytes of one unpacked content.
_CONTENT_BYTES = 256 << 20
# (patch, torch, check)
_Check = tuple[str, str, str]


class History:
    """A file of runs in order of time. It is created at `path` if it does not exist."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        if path.exists() and not path.is_file():
            raise UsageError(
                "not a history", where=str(path), got="no regular file", next="another --folder"
            )
        self._file = sqlite3.connect(path, timeout=_PATIENCE)
        # Contents already read are kept, because most runs repeat most of the previous run.
        self._facts_read: dict[bytes, dict[str, str]] = {}
        self._verdicts_read: dict[tuple[_Check, frozenset[bytes]], RunVerdicts] = {}
        try:
            self._file.execute("PRAGMA journal_mode = WAL")
            self._prepare()
        except (sqlite3.DatabaseError, ValueError) as error:
            self._file.close()
            raise UsageError(
                "not a history", where=str(path), got=str(error), next="another --folder"
            ) from None

    def _prepare(self) -> None:
        (made,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (number,) = self._file.execute("PRAGMA user_version").fetchone()
        if made and number != _FORMAT:
            raise ValueError(f"tables of format {number}, this patchgate writes {_FORMAT}")
        # One transaction, so that a process that is killed here leaves no tables without their
        # format.
        self._file.executescript(
            f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {_FORMAT};COMMIT;"
        )

    def _line(self, torch: str) -> str:
        try:
            return release_line(torch)
        except ValueError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> UsageError:
        return UsageError(
            "a damaged history",
            where=str(self._path),
            got=str(error) or repr(error),
            next="another --folder, or `history --merge` of what can still be read",
        )

    def close(self) -> None:
        self._file.close()

    def record(
        self,
        run: str,
        at: str,
        patch: str,
        verdicts: list[Verdict],
        observations: Iterable[Observation],
    ) -> None:
        """Record the verdicts on one patch in a run that began `at` (ISO 8601); a repeated call
        changes nothing.
        """
        with self._file as file:  # one transaction
            file.execute("INSERT OR IGNORE INTO run VALUES (?, ?)", (run, at))
            for (torch, check), group in groupby(
                sorted(verdicts, key=_order), key=lambda v: (v.torch, v.check)
            ):
                of_check = list(group)
                worst = max(v.colour.value for v in of_check)  # green < grey < red, also as words
                digest = _save(file, [to_dict(v) | {"colour": v.colour.value} for v in of_check])
                judged = (run, patch, torch, check, digest, worst)
                file.execute("INSERT OR IGNORE INTO judged VALUES (?,?,?,?,?,?)", judged)
            for observation in observations:
                case = observation.case
                digest = _save(
                    file, {name: fact_to(value) for name, value in observation.facts.items()}
                )
                observed = (
                    case.workload,
                    case.device,
                    run,
                    case.torch,
                    case.patch or UNPATCHED,
                    digest,
                )
                file.execute("INSERT OR IGNORE INTO observed VALUES (?,?,?,?,?,?)", observed)

    def _content(self, digest: bytes) -> Any:
        row = self._file.execute("SELECT told FROM content WHERE digest = ?", (digest,)).fetchone()
        try:
            return parse_json(zlib.decompressobj().decompress(row[0], _CONTENT_BYTES).decode())
        except (TypeError, ValueError, zlib.error) as error:
            raise self._damaged(error) from None

    def _facts(self, digest: bytes) -> dict[str, str]:
        """The facts of an observation, each value as JSON."""
        if digest not in self._facts_read:
            facts = self._content(digest)
            self._facts_read[digest] = {name: json.dumps(value) for name, value in facts.items()}
        return self._facts_read[digest]

    def spend(self, run: str, patch: str, torch: str, seconds: float) -> None:
        """Record how long one patch took to be judged on one torch."""
        with self._file as file:
            file.execute(
                "INSERT OR REPLACE INTO cost VALUES (?,?,?,?)", (patch, torch, run, seconds)
            )

    def costs(self) -> dict[tuple[str, str], float]:
        """Return the seconds of the last new judgement of each (patch, torch)."""
        query = (
            "SELECT patch, torch, seconds FROM cost JOIN run ON run.id = cost.run ORDER BY "
            "run.at, run.id"
        )
        return {(patch, torch): seconds for patch, torch, seconds in self._file.execute(query)}

    def runs(self) -> list[tuple[str, str]]:
        """(id, time) of every run, oldest first."""
        return list(self._file.execute("SELECT id, at FROM run ORDER BY at, id"))

    def series(
        self, workload: str, device: str, fact: str, patch: str | None = None
    ) -> list[Point]:
        """Each value of a fact, oldest first; without `patch`, the values for every patch
        and for unpatched torch.
        """
        query = (
            "SELECT run.at, torch, patch, facts FROM observed JOIN run ON run.id = observed.run"
            " WHERE workload = ? AND device = ? AND (? IS NULL OR patch = ?) ORDER BY run.at, "
            "torch, patch"
        )
        return [
            Point(at=at, torch=self._line(torch), patch=whose, value=facts[fact])
            for at, torch, whose, digest in self._file.execute(
                query, (workload, device, patch, patch)
            )
            if fact in (facts := self._facts(digest))
        ]

    def past(self, workload: str, device: str, runs: int) -> dict[tuple[str, str, str], list[str]]:
        """(torch, patch, fact) -> its values in the last `runs` runs, oldest first."""
        query = (
            "SELECT torch, patch, facts FROM observed WHERE workload = ? AND device = ? AND run = ?"
        )
        past: dict[tuple[str, str, str], list[str]] = {}
        for run, _ in self.runs()[-runs:]:
            for torch, patch, digest in self._file.execute(query, (workload, device, run)):
                for fact, value in self._facts(digest).items():
                    past.setdefault((self._line(torch), patch, fact), []).append(value)
        return past

    def recent(self, runs: int) -> list[RunVerdicts]:
        """Return the verdicts of each of the last runs, oldest first.

        A check of a patch on a torch is left out if it was green and equal in all of these runs.
        """
        query = "SELECT patch, torch, chk, verdicts, colour FROM judged WHERE run = ?"
        contents: list[dict[_Check, frozenset[bytes]]] = []
        changing: set[_Check] = set()
        for run, _ in self.runs()[-runs:]:
            by_check: dict[_Check, frozenset[bytes]] = {}
            for patch, torch, check, digest, colour in self._file.execute(query, (run,)):
                key = patch, self._line(torch), check
                by_check[key] = by_check.get(key, frozenset()) | {digest}
                if colour != "green":
                    changing.add(key)
            contents.append(by_check)
        for by_check in contents[1:]:
            first = contents[0]
            changing |= {
                key for key in by_check.keys() | first.keys() if by_check.get(key) != first.get(key)
            }
        return [
            self._verdicts({key: digests for key, digests in by_check.items() if key in changing})
            for by_check in contents
        ]

    def _verdicts(self, by_check: dict[_Check, frozenset[bytes]]) -> RunVerdicts:
        verdicts: dict[VerdictKey, VerdictSummary] = {}
        for check, digests in by_check.items():
            if (check, digests) not in self._verdicts_read:
                contents = [verdict for digest in digests for verdict in self._content(digest)]
                self._verdicts_read[check, digests] = _worst_by_subject(check, contents)
            verdicts.update(self._verdicts_read[check, digests])
        return verdicts

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return {
            name: self._file.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in _NAMES
        }

    def merge(self, other: Path) -> None:
        """Add every row of another machine's history; rows that exist here are not added again."""
        if not other.is_file():
            raise UsageError(
                "no history to merge",
                where=str(other),
                got="nothing there",
                next="patchgate history --merge FILE",
            )
        History(other).close()  # makes its tables; refuses a file that is no history
        self._file.execute("ATTACH ? AS other", (str(other),))
        with self._file as file:
            for table in _NAMES:
                file.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}")
        self._file.execute("DETACH other")


def _order(verdict: Verdict) -> tuple[str, ...]:
    return verdict.torch, verdict.check, verdict.subject, verdict.code, verdict.actual


def _worst_by_subject(check: _Check, verdicts: list[dict[str, str]]) -> RunVerdicts:
    worst: dict[VerdictKey, VerdictSummary] = {}
    for verdict in verdicts:
        key = VerdictKey(*check, verdict["item"], verdict["fact"])
        summary = VerdictSummary(verdict["colour"], verdict["code"], verdict["actual"])
        worst[key] = max(summary, worst.get(key, summary))
    return worst


def _save(file: sqlite3.Connection, content: Any) -> bytes:
    """Store a content unless it is stored already, and return its digest."""
    text = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(text).digest()[:16]
    file.execute("INSERT OR IGNORE INTO content VALUES (?, ?)", (digest, zlib.compress(text)))
    return digest
