"""TOML files -> tables, and the line of a key for messages.

A file that is not TOML, or has unknown keys, is refused with file:line.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.paths import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of `path`. Raises UsageError with file:line when it is missing or not TOML."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return table
    except OSError as error:
        raise UsageError("cannot be read", where=shown(path), got=error.strerror or str(error)) from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        where = f"{shown(path)}:{line.group(1)}" if line else shown(path)
        advice = 'mend that line: key = "text", key = 1.5, key = ["a", "b"], or [table]'
        raise UsageError("not TOML", where=where, got=str(error), next=advice) from None
    except UnicodeDecodeError as error:
        where = f"{shown(path)}:{error.object.count(10, 0, error.start) + 1}"
        raise UsageError("not TOML", where=where, got=str(error), next="save the file as UTF-8") from None


def refuse_unknown(path: Path, table: dict[str, Any], known: Collection[str], prefix: str = "") -> None:
    """Raises UsageError for the first key that nobody reads, with the nearest one that somebody does."""
    for key in table:
        if key not in known:
            line = line_of(path.read_text(encoding="utf-8"), key, prefix.rstrip("."))
            close = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(sorted(known))}"
            raise UsageError(
                f"unknown key `{prefix}{key}`", where=f"{shown(path)}:{line}", got=f"{key} = ...", next=advice
            )


def line_of(text: str, start: str, table: str = "") -> int:
    """The 1-based number of the first line that begins with the word `start` (blanks aside), or 1.

    With `table`, the first one inside that table of a TOML text, or where the table itself begins, if it is there.
    """
    begins = re.compile(rf"\s*{re.escape(start)}(?![\w-])")
    opens = re.compile(rf"\s*(\[\[?\s*)?{re.escape(table)}(?![\w-])")
    opened = None if table else 1
    for number, line in enumerate(text.splitlines(), 1):
        if opened is None:
            opened = number if opens.match(line) else None
        elif begins.match(line):
            return number
    return opened or line_of(text, start)
