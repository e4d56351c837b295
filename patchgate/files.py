"""Writing files so that a reader sees the old text or the new, never half of it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` with `text`; on any failure the old file stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def line_of(text: str, start: str) -> int:
    """The 1-based number of the first line that begins with the word `start` (blanks aside), or 1."""
    begins = re.compile(rf"\s*{re.escape(start)}(?![\w-])")
    for number, line in enumerate(text.splitlines(), 1):
        if begins.match(line):
            return number
    return 1
