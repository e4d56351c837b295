"""Answers of the probe, kept between runs by content key (`patchgate.runner.cache_keys`).

An entry is a JSON file and at most one file with the tensors of the answer. Both are checked by
digest. A damaged entry counts as absent, and its answer is measured again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgate.model.files import read_regular, write_atomically
from patchgate.model.serialization import parse_json

# The maximum bytes of an entry and of its file. The largest files are outputs of whole models.
_ENTRY_BYTES, _FILE_BYTES = 16 << 20, 1 << 30


@dataclass(frozen=True)
class Cache:
    """A folder of entries. Processes may share it. A child that runs a patch cannot write to it."""

    folder: Path  #: made when the first entry is saved

    def load(self, key: str, file: Path | None = None) -> dict[str, Any] | None:
        """Return the content of an entry, or None if it is absent or damaged.

        If the entry has a file, a copy of this file is put at `file`, never a link to the cache.
        """
        entry, stored = self._paths(key)
        try:
            kept = parse_json(read_regular(entry, _ENTRY_BYTES).decode())
            content: dict[str, Any] = kept["content"]
            data = read_regular(stored, _FILE_BYTES) if kept["file"] else b""
            if kept["digest"] != _digest(key, content) or kept["file"] != _file_digest(data):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with contextlib.suppress(OSError):  # for `prune`
            os.utime(entry)
        if file and data:
            write_atomically(file, data, lasting=False)
        return content

    def save(self, key: str, content: dict[str, Any], file: Path | None = None) -> None:
        """Keep an entry, and a copy of `file` if there is one."""
        entry, stored = self._paths(key)
        data = file.read_bytes() if file and file.is_file() else b""
        if data:
            write_atomically(stored, data, lasting=False)
        # The entry is written last, so that a process that sees it finds its file.
        kept = {"digest": _digest(key, content), "file": _file_digest(data), "content": content}
        write_atomically(entry, json.dumps(kept) + "\n", lasting=False)  # never half an entry

    def forget(self, key: str) -> None:
        """Remove an entry and its file."""
        for path in self._paths(key):
            path.unlink(missing_ok=True)

    def forget_all(self) -> None:
        """Remove every entry."""
        prune(self.folder, "*/*", 0)

    def _paths(self, key: str) -> tuple[Path, Path]:
        folder = self.folder / key[:2]
        return folder / f"{key}.json", folder / f"{key}.file"


def prune(folder: Path, pattern: str, most: int) -> None:
    """Remove the least recently used entries that fit a pattern below a folder, until the others
    have at most `most` bytes. Links are not followed.
    """
    found = []
    real = folder.parent.resolve() / folder.name
    for path in real.glob(pattern):
        if path.is_symlink() or path.parent.resolve() != path.parent:  # a link, or behind one
            continue
        with contextlib.suppress(OSError):  # another run may remove it too
            below = [each.stat().st_size for each in (path, *path.rglob("*"))]
            found.append((path.stat().st_mtime, sum(below), path))
    for _, size, path in sorted(found, reverse=True):
        most -= size
        if most < 0 and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif most < 0:
            path.unlink(missing_ok=True)


def _file_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if data else ""


def _digest(key: str, content: object) -> str:
    """Hash an entry with its key, so that a copy under another key is rejected."""
    return hashlib.sha256(f"{key} {json.dumps(content, sort_keys=True)}".encode()).hexdigest()
