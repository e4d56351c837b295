"""TOML files -> tables and records.

A file that is not TOML, or does not fit its record, is refused. The error gives file:line, the
value there, and what to write instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from textwrap import shorten
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.files import read_text
from patchgate.model.git import files_in_git
from patchgate.model.paths import display_path
from patchgate.model.serialization import Invalid, KeyPath, Record, structure

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The files that may hold the table of a project.
PYPROJECT, OWN_FILE = "pyproject.toml", "patchgate.toml"
# An error shows at most this many characters of a value.
_SHOWN = 200
_HEADER = re.compile(r"\s*\[\[?[\w. -]+\]\]?\s*(#.*)?$")


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of `path`. Raises UsageError with file:line when it is missing or not TOML."""
    try:
        table: dict[str, Any] = tomllib.loads(read_text(path))
        return table
    except (RecursionError, ValueError) as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            raise _not_toml(path, error) from None
        raise UsageError(
            "not TOML", where=display_path(path), got=f"{type(error).__name__}: {error}"[:_SHOWN]
        ) from None


def _not_toml(path: Path, error: tomllib.TOMLDecodeError) -> UsageError:
    line = re.search(r"line (\d+)", str(error))
    return UsageError(
        "not TOML",
        where=f"{display_path(path)}:{line.group(1)}" if line else display_path(path),
        got=str(error)[:_SHOWN],
        next='correct that line: key = "text", key = 1.5, key = ["a", "b"], or [table]',
    )


def table_around(place: Path) -> Path | None:
    """The file with the nearest table of patchgate in the folders around a place, up to the root of
    its repository.

    Raises UsageError if a folder has two such files.
    """
    for folder in folders_around(place):
        found = [
            path
            for path in (folder / OWN_FILE, folder / PYPROJECT)
            if path.is_file() and _has_table(path)
        ]
        if len(found) > 1:
            raise UsageError(
                "two tables of one project",
                where=display_path(found[0]),
                got=f"[tool.patchgate] in {PYPROJECT} and {OWN_FILE} next to it",
                next="keep one of the two",
            )
        if found:
            return found[0]
        if (folder / ".git").exists():
            break
    return None


def tables_below(folder: Path) -> list[Path]:
    """The files with a table of patchgate below a folder, among the files that git knows."""
    names = files_in_git(folder, "--", f"*{OWN_FILE}", f"*{PYPROJECT}") or ()
    return [path for path in map(folder.joinpath, names) if path.is_file() and _has_table(path)]


def folders_around(place: Path) -> Iterator[Path]:
    """The folders around a place, the innermost first. If the place is a folder, it comes first."""
    place = place.resolve()
    if place.is_dir():
        yield place
    yield from place.parents


def _has_table(path: Path) -> bool:
    """True if the file has a table of patchgate. A pyproject.toml that does not mention patchgate
    is not parsed: it may be broken, or a template.
    """
    if path.name == OWN_FILE:
        return True
    text = path.read_text(encoding="utf-8", errors="replace")
    return "patchgate" in text and "patchgate" in read_toml(path).get("tool", {})


def load_toml_record(
    kind: type[Record],
    path: Path,
    check: Callable[[Record], None] | None = None,
    defaults: Mapping[str, Any] | None = None,
    below: tuple[str, ...] = (),
) -> Record:
    """The record that the file, or its table `below`, describes.

    Raises UsageError with file:line for the first error.

    `check` raises `Invalid` for errors that no single key shows: names in other files, keys that
    contradict each other. `defaults` are values for keys that the file may leave out, in addition
    to the defaults of the record.
    """
    table = value_at(read_toml(path), below)
    try:
        if not isinstance(table, dict):
            raise Invalid(f"`{'.'.join(below)}`: not a table", next=f"[{'.'.join(below)}]")
        record = structure(kind, {**(defaults or {}), **table})
        if check:
            check(record)
    except Invalid as fault:
        where, got = display_path(path), fault.got
        if fault.path:
            where += f":{line_of(read_text(path), (*below, *fault.path))}"
            got = got or shorten(f"{fault.path[-1]} = {_shown(table, fault.path)}", _SHOWN)
        raise UsageError(fault.what, where=where, got=got, next=fault.next) from None
    return record


def _shown(table: Any, path: KeyPath) -> str:
    try:
        return repr(value_at(table, path))
    except RecursionError:  # `a.a.a...`
        return "a table of very many levels"
    except ValueError:  # Python writes no number of so many digits
        return "a very long number"


def value_at(table: Any, path: KeyPath) -> Any:
    """The value at a path. Raises LookupError or TypeError when there is none."""
    for step in path:
        table = table[step]
    return table


def line_of(text: str, path: KeyPath) -> int:
    """The 1-based number of the line of a TOML text that sets the key at `path`, or opens the table
    there.

    If the key is missing, the number of its table's line; if the table is missing too, 1.
    """
    *tables, key = (step for step in path if isinstance(step, str))
    index = next((step for step in path if isinstance(step, int)), 0)
    lines = list(enumerate(text.splitlines(), 1))
    start = 0
    if tables:
        opening = [number for number, line in lines if _sets(line, ".".join(tables))]
        if not opening:  # a table without a header: `budgets.latency = "1 %"` in its parent
            return line_of(text, (*tables[:-1], f"{tables[-1]}.{key}"))
        start = opening[min(index, len(opening) - 1)] if opening else 0
    for number, line in lines[start:]:
        if _sets(line, key):
            return number
        if start and _HEADER.match(line):
            break
    return start or 1


def with_item(text: str, path: tuple[str, ...], item: str) -> str | None:
    """A TOML text with one more item in the list at `path`, and everything else unchanged; None if
    such a text cannot be written.
    """
    import tomlkit  # imported here, as only `init` writes TOML

    document = tomlkit.parse(text)
    *tables, key = path
    owner = reduce(lambda table, name: table.setdefault(name, {}), tables, document)
    owner.setdefault(key, []).append(item)
    longer = tomlkit.dumps(document)
    with suppress(tomllib.TOMLDecodeError):  # tomlkit forgets a comma before a comment's line
        if tomllib.loads(longer) == document.unwrap():
            return longer
    return None


def _sets(line: str, name: str) -> bool:
    return re.match(rf"\s*(\[\[?\s*)?{re.escape(name)}(?![\w-])", line) is not None
