"""A file of the findings that a package had when it began to use lint: they are not red again.

An entry is known by what it says and by the text of its line, never by the number of the line. It
comes back where it hurts sooner than it did, or in more places.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from patchgate.lint.findings import Finding, Severity, When
from patchgate.model.errors import UsageError
from patchgate.model.files import read_text, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import record

_SCHEMA = 1
_ORDER = tuple(When)


@record
class Known:
    """Findings of one text; `path` is seen from the folder of the baseline, `when` and `places` are
    at its writing.
    """

    path: str
    code: str
    about: str
    line: str
    when: str
    places: int

    @property
    def text(self) -> tuple[str, str, str, str]:
        return self.path, self.code, self.about, self.line


def write_baseline(file: Path, findings: Iterable[Finding]) -> int:
    """Make `file` hold everything that is red now; tells how many entries it has."""
    entries = sorted(_by_text(findings, file).values(), key=lambda each: each.text)
    rows = ",\n".join(f"  {json.dumps(asdict(each), ensure_ascii=False)}" for each in entries)
    write_atomically(file, f'{{"schema": {_SCHEMA}, "known": [\n{rows}\n]}}\n')
    return len(entries)


def without_known(
    file: Path, findings: Sequence[Finding], files: Iterable[str]
) -> tuple[list[Finding], list[Known]]:
    """The findings that are left, and the stale entries: of the files that were judged, those that
    nothing says now.

    Raises UsageError for a file that is no baseline.
    """
    known = {each.text: each for each in _read(file)}
    found = _by_text(findings, file)
    left = [each for each in findings if not _is_known(_entry(each, file), found, known)]
    judged = {_seen_from(each, file) for each in files}
    return left, [each for text, each in known.items() if text not in found and each.path in judged]


def _is_known(
    entry: Known,
    found: dict[tuple[str, str, str, str], Known],
    known: dict[tuple[str, str, str, str], Known],
) -> bool:
    now, before = found.get(entry.text), known.get(entry.text)
    if now is None or before is None:
        return False
    return now.places <= before.places and _ORDER.index(When(now.when)) >= _ORDER.index(
        When(before.when)
    )


def _by_text(findings: Iterable[Finding], file: Path) -> dict[tuple[str, str, str, str], Known]:
    """Of findings of one text all places together, and when the first of them hurts."""
    entries: dict[tuple[str, str, str, str], Known] = {}
    for each in findings:
        if each.severity is Severity.RED:
            new = _entry(each, file)
            same = entries.get(new.text)
            soonest = min(
                (each.when for each in (new, same) if each),
                key=lambda text: _ORDER.index(When(text)),
            )
            entries[new.text] = replace(
                new, when=soonest, places=new.places + (same.places if same else 0)
            )
    return entries


def _entry(finding: Finding, file: Path) -> Known:
    return Known(
        path=_seen_from(finding.path, file),
        code=finding.code,
        about=finding.name or finding.message,
        line=finding.line.strip(),
        when=(finding.when or When.NOW).value,
        places=1 + len(finding.also),
    )


def _seen_from(path: str, file: Path) -> str:
    here, folder = Path(path).resolve(), file.resolve().parent
    return here.relative_to(folder).as_posix() if here.is_relative_to(folder) else path


def _read(file: Path) -> list[Known]:
    text = read_text(file, "patchgate lint --write-baseline FILE ...")
    try:
        told = json.loads(text)
        if told["schema"] != _SCHEMA:
            raise ValueError(f"schema {told['schema']!r}, wanted {_SCHEMA}")
        entries = [Known(**each) for each in told["known"]]
        for each in entries:
            When(each.when), each.places + 0, hash(each.text)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            "not a baseline of patchgate lint",
            where=display_path(file),
            got=str(error)[:200],
            next="patchgate lint --write-baseline FILE ...",
        ) from None
    return entries
