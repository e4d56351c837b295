"""The torch releases of ci/matrix.toml."""

from __future__ import annotations

from pathlib import Path

from packaging.version import Version

from patchgate.inputs.toml import load_toml_record
from patchgate.model.paths import MATRIX
from patchgate.model.records import record
from patchgate.model.serialization import key, read_version


@record
class MatrixEntry:
    """One torch release."""

    torch: str = key(read=read_version, example='torch = "2.12.1"')
    #: PEP 440 specifier of the interpreters that the release has wheels for and patchgate runs on
    python: str = key(example='python = ">=3.10,<3.14"')
    #: "premerge": judged by `nox -s gate`; "nightly": by a sweep
    tags: tuple[str, ...] = key(example='tags = ["nightly"]')


@record
class _Matrix:
    row: tuple[MatrixEntry, ...] = ()  #: the entries, as the file has them


def load_matrix(path: Path = MATRIX) -> tuple[MatrixEntry, ...]:
    """The entries in release order.

    Raises UsageError with file:line for the first error.
    """
    return tuple(
        sorted(load_toml_record(_Matrix, path).row, key=lambda entry: Version(entry.torch))
    )
