"""Lines of source that a report quotes from a `file:line`."""

from __future__ import annotations

import os
from pathlib import Path

from patchgate.model.files import read_regular
from patchgate.model.paths import leaves_project

# Kinds of files from which a line is quoted, and the most bytes of such a file.
_SOURCES, _BYTES = (".py", ".toml", ".diff", ".patch"), 1 << 20


def lines_at(place: str, around: int = 0) -> list[tuple[int, str]]:
    """The pairs (number, line) for the line at `place`, which is `file:line`, and for `around`
    lines on each side of it. The list is empty if the file is no source of this repository.

    A patch can choose `place`: it can raise an error from compiled code that claims any file name.
    """
    file, _, at = place.rpartition(":")
    path = Path(file)
    hidden = any(
        part.startswith(".") for part in Path(os.path.relpath(path.resolve())).parts if part != ".."
    )
    if (
        not at.isdecimal()
        or path.suffix not in _SOURCES
        or hidden
        or leaves_project(path, Path.cwd())
    ):
        return []
    try:
        lines = read_regular(path, _BYTES).decode().splitlines()
    except (OSError, ValueError):
        return []
    first, last = max(int(at) - around, 1), int(at) + around
    return list(enumerate(lines[first - 1 : last], first)) if int(at) <= len(lines) else []
