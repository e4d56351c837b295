"""A baseline: a file of the red findings that a package had when it began to use lint.

Lint leaves these findings out. Findings with the same file, code, name (or message) and text of
their line share one entry; the line's number does not matter. Lint reports the findings of an
entry again if one of them breaks code sooner than before (see `When`), or if they are in more
places.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from patchgate.lint.findings import Finding, Severity, When
from patchgate.model.errors import UsageError
from patchgate.model.files import read_text, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import record
from patchgate.model.serialization import structure, to_dict

_SCHEMA = 1
_ORDER = tuple(When)
Text = tuple[str, str, str, str]


@record
class Known:
    """The red findings that share one text, as they were when the baseline was written. `path` is
    relative to the folder of the baseline.
    """

    path: str
    code: str
    about: str
    line: str
    when: When
    places: int

    @property
    def text(self) -> Text:
        return self.path, self.code, self.about, self.line


@record
class _File:
    schema: int
    known: tuple[Known, ...]


def write_baseline(file: Path, findings: Iterable[Finding]) -> int:
    """Write everything that is red now to `file`; return the number of entries."""
    entries = sorted(_by_text(findings, file).values(), key=lambda each: each.text)
    rows = ",\n".join(f"  {json.dumps(to_dict(each), ensure_ascii=False)}" for each in entries)
    write_atomically(file, f'{{"schema": {_SCHEMA}, "known": [\n{rows}\n]}}\n')
    return len(entries)


def without_known(
    file: Path, findings: Sequence[Finding], files: Iterable[str]
) -> tuple[list[Finding], list[Known]]:
    """The findings that the baseline does not cover, and the entries of judged files that no
    finding matches any more.

    Raises UsageError for a file that is no baseline.
    """
    known = {each.text: each for each in _read(file)}
    found = _by_text(findings, file)
    unchanged = {
        text
        for text, now in found.items()
        if text in known
        and now.places <= known[text].places
        and _ORDER.index(now.when) >= _ORDER.index(known[text].when)
    }
    left = [each for each in findings if _entry(each, file).text not in unchanged]
    judged = {_relative(each, file) for each in files}
    return left, [each for text, each in known.items() if text not in found and each.path in judged]


def _by_text(findings: Iterable[Finding], file: Path) -> dict[Text, Known]:
    """Map each text to one entry for all its red findings. The entry has the number of their places
    and the soonest time at which one of them hurts.
    """
    entries: dict[Text, Known] = {}
    for finding in findings:
        if finding.severity is Severity.RED:
            new = _entry(finding, file)
            if same := entries.get(new.text):
                soonest = min(new.when, same.when, key=_ORDER.index)
                new = replace(new, when=soonest, places=new.places + same.places)
            entries[new.text] = new
    return entries


def _entry(finding: Finding, file: Path) -> Known:
    return Known(
        path=_relative(finding.path, file),
        code=finding.code,
        about=finding.name or finding.message,
        line=finding.line.strip(),
        when=finding.when or When.NOW,
        places=1 + len(finding.also),
    )


def _relative(path: str, file: Path) -> str:
    here, folder = Path(path).resolve(), file.resolve().parent
    return here.relative_to(folder).as_posix() if here.is_relative_to(folder) else path


def _read(file: Path) -> Sequence[Known]:
    again = "patchgate lint --write-baseline FILE ..."
    try:
        read = structure(_File, json.loads(read_text(file, again)), written=False)
        if read.schema != _SCHEMA:
            raise ValueError(f"schema {read.schema!r}, wanted {_SCHEMA}")
    except (ValueError, RecursionError) as error:
        where, got = display_path(file), str(error)[:200]
        raise UsageError(
            "not a baseline of patchgate lint", where=where, got=got, next=again
        ) from None
    return read.known
