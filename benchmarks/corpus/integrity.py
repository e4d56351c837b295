"""Verify that the torch of an environment is, byte for byte, what was installed.

Size and time of every file are compared before and after; those that differ, or at night all of
them, are compared with the digests that the installer wrote down (RECORD). Compiled Python is left
out.
"""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Mapping
from pathlib import Path

from patchgate.runner.cache_keys import read_environment

Stats = dict[str, tuple[int, int]]
_CHUNK = 1 << 22


class Integrity:
    """The installed torch of each environment, and what became of it since."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._homes = {
            torch: Path(read_environment(python)["home"]) for torch, python in rows.items()
        }
        self._before = {torch: stats(home) for torch, home in self._homes.items()}

    def changes(self, *, every_byte: bool = False) -> list[str]:
        """A line for each file that is not as it was; empty when all are."""
        changes = []
        for torch, home in self._homes.items():
            faults = altered(home, self._before[torch])
            faults += unlike_record(home) if every_byte else []
            changes += [f"torch {torch}: {fault}" for fault in dict.fromkeys(faults)]
        return changes


def stats(home: Path) -> Stats:
    """Size and time of every file of the torch that is installed below `home`, by its path
    there.
    """
    files = {}
    for folder in sorted(home.glob("torch*")):
        for path in folder.rglob("*") if folder.is_dir() else [folder]:
            if path.is_file() and path.suffix != ".pyc":
                stat = path.stat()
                files[str(path.relative_to(home))] = (stat.st_size, stat.st_mtime_ns)
    return files


def altered(home: Path, before: Stats) -> list[str]:
    """List the files that changed since `before`; one that was only touched is as it was."""
    after, recorded = stats(home), _recorded(home)
    faults = [f"{name} is new" for name in after.keys() - before.keys()]
    faults += [f"{name} is gone" for name in before.keys() - after.keys()]
    for name in after.keys() & before.keys():
        if after[name] != before[name] and _digest(home / name) != recorded.get(name):
            faults.append(f"{name} has other bytes")
    return sorted(faults)


def unlike_record(home: Path) -> list[str]:
    """The files of torch whose bytes are not those that were installed, whatever their time
    says.
    """
    faults = []
    for name, digest in _recorded(home).items():
        path = home / name
        if not path.is_file():
            faults.append(f"{name} is gone")
        elif _digest(path) != digest:
            faults.append(f"{name} has other bytes")
    return sorted(faults)


def _recorded(home: Path) -> dict[str, str]:
    """Path -> digest, of those files that have one."""
    digests = {}
    for record in home.glob("torch-*.dist-info/RECORD"):
        with record.open(encoding="utf-8", newline="") as lines:
            for name, digest, _ in csv.reader(lines):
                if digest and not name.endswith(".pyc"):
                    digests[name] = digest
    return digests


def _digest(path: Path) -> str:
    """As RECORD writes it."""
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return "sha256=" + base64.urlsafe_b64encode(hasher.digest()).rstrip(b"=").decode()
