"""The torch releases of ci/matrix.toml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from patchgate.inputs.toml import read_toml, refuse_unknown
from patchgate.model.errors import UsageError
from patchgate.model.paths import MATRIX, shown

_KEYS = frozenset({"torch", "python", "tags"})


@dataclass(frozen=True, kw_only=True)
class MatrixEntry:
    """One torch release of the matrix; `python` is a PEP 440 specifier of interpreters that it runs on."""

    torch: str
    python: str
    tags: tuple[str, ...]


def load_matrix(path: Path = MATRIX) -> tuple[MatrixEntry, ...]:
    """The rows in release order. Raises UsageError for an unknown key or a version that is none."""
    table = read_toml(path)
    refuse_unknown(path, table, {"row"})
    rows = []
    for entry in table.get("row", []):
        refuse_unknown(path, entry, _KEYS, prefix="row.")
        try:
            Version(entry["torch"])
            rows.append(MatrixEntry(torch=entry["torch"], python=entry["python"], tags=tuple(entry["tags"])))
        except (KeyError, TypeError, InvalidVersion):
            raise UsageError(
                "a row needs a torch version, pythons and tags",
                where=shown(path),
                got=repr(entry),
                next='torch = "2.12.1", python = ">=3.10,<3.14", tags = ["nightly"]',
            ) from None
    return tuple(sorted(rows, key=lambda row: Version(row.torch)))
