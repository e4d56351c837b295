"""Render findings of lint as text, JSON, SARIF 2.1.0 and GitHub annotations, and the private names
of torch that a package uses as text and JSON.

All forms show the same message, releases and fix of a finding.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from patchgate.lint.findings import Finding, Severity, When, first_after
from patchgate.lint.rules import CODES
from patchgate.lint.run import HowFar, Report
from patchgate.model.text import counted, escape_control, time_text
from patchgate.model.versions import in_order, show_releases
from patchgate.report.github_annotations import among_commands, annotation
from patchgate.report.sarif import Place, Result, render_sarif, sarif_result

if TYPE_CHECKING:
    from patchgate.lint.usage import UsageReport, UsedName

# This number grows when a field of the JSON changes its meaning.
_JSON_SCHEMA = 1
# This many characters of a long source line are shown on either side of a finding.
_AROUND = 100
# At most this many files are named as not judged.
_FIRST = 3


class LintProgress:
    """Shows the progress of lint on `stream`: one changing line in a terminal, elsewhere a new line
    every 15 s.
    """

    def __init__(self, stream: TextIO, how_far: Callable[[], HowFar], every: float = 0) -> None:
        self._stream, self._how_far, self._is_terminal = stream, how_far, stream.isatty()
        self._every = every or (1 if self._is_terminal else 15)
        self._began, self._over = time.monotonic(), threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _repeat(self) -> None:
        """Write lines like `15 s: 310 of 1127 files, about 40 s left` until lint ends."""
        shown = False
        while not self._over.wait(self._every):
            done, total, share = self._how_far()
            elapsed = time.monotonic() - self._began
            left = f", about {time_text(elapsed / share - elapsed)} left" if share else ""
            line = f"{time_text(elapsed)}: {done} of {total} files{left}"
            shown = self._is_terminal
            self._write(f"\r\x1b[K{line}" if shown else f"{line}\n")
        if shown:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the reader is gone
            self._stream.write(text)
            self._stream.flush()


def render_findings(report: Report, form: str, *, details: bool = False) -> str:
    """Write findings as text, json, github or sarif (`form`); `details` adds to the text only."""
    if form == "text":
        return _text(report, details)
    if form == "github":
        places = [
            replace(each, span=span) for each in report.findings for span in (each.span, *each.also)
        ]
        return f"{among_commands(map(_annotation, places))}\n" if places else ""
    if form == "sarif":
        return render_sarif(CODES, map(_result, report.findings))
    return json.dumps(_json(report), indent=1) + "\n"


def _message(finding: Finding) -> str:
    releases = f" [{finding.shown_releases}]" if finding.shown_releases else ""
    return finding.message + releases + (f"; {finding.fix}" if finding.fix else "")


def _text(report: Report, details: bool) -> str:
    """One line for each finding, then the source line with a caret below; for a folder, a table of
    broken names; at the end, a summary.
    """
    red = [finding for finding in report.findings if finding.severity is Severity.RED]
    if report.walked and report.files:
        lines = _by_hurt(report, details)
        if soon := [finding for finding in red if details or finding.when is not When.LOWER_BOUND]:
            lines += ["", *_table(["file", "name", "breaks on"], _breaks(soon))]
    else:
        lines = [line for finding in report.findings for line in _finding_lines(finding, details)]
    lines += [f"releases: {each}; --torch SPEC judges others" for each in report.ranges]
    notes = len(report.findings) - len(red)
    files = _of_files(len(report.files), report.walked)
    counts = f"{len(red)} red, {counted(notes, 'note')}"
    lines += _not_judged(report.unread)
    lines.append(f"{files} linted against {_releases(report.releases)}: {counts}")
    if report.exit_code == 3:
        lines[-1] += f"; {'not all' if report.has_judged else 'nothing'} was judged; exit code 3"
    return escape_control("\n".join(lines)) + "\n"


def _not_judged(unread: Sequence[Finding]) -> Iterator[str]:
    """Yield lines like `not judged: p.py:2: not readable as Python; next: correct it there`."""
    for each in unread[:_FIRST]:
        message = each.message.removeprefix("not judged: ").removeprefix("nothing to judge: ")
        step = f"; next: {each.fix}" if each.fix else ""
        yield f"not judged: {each.path}:{each.span.line}: {message}{step}"
    if len(unread) > _FIRST:
        yield f"not judged: {counted(len(unread) - _FIRST, 'other file')}, named above"


def _by_hurt(report: Report, details: bool) -> list[str]:
    """Return the lines of `_outlook`, then the findings, those that hurt soonest first. Findings
    about a lower bound that is too low are shown only with `details`.
    """
    lines = list(_outlook(report)) if report.has_judged else []
    for group in (When.NOW, When.NEXT, When.OLDER, When.LOWER_BOUND, None):
        found = [each for each in report.findings if each.when is group]
        if found and (details or group is not When.LOWER_BOUND):
            lines += ["", f"{group.value}:" if group else "notes:"]
            lines += [line for each in found for line in _finding_lines(each, details)]
    return lines if report.has_judged else lines[1:]


def _outlook(report: Report) -> Iterator[str]:
    """The answers to three questions: does the newest torch work, which release breaks next, is the
    lower bound true?
    """
    groups = {group: [each for each in report.findings if each.when is group] for group in When}
    now, later, low = groups[When.NOW], groups[When.NEXT], groups[When.LOWER_BOUND]
    newest = report.releases[-1] if report.releases else "none"
    yield (
        f"newest torch that is supported ({newest}): "
        f"{_places_of(now) + ' broken now' if now else 'nothing red'}"
    )
    if later:
        first = in_order(each.releases[0] for each in later)[0]
        yield f"next torch that breaks: {first}, {_places_of(later)}"
    else:
        none = f"none up to {report.ahead[-1]}" if report.ahead else "no newer one is indexed"
        yield f"next torch that breaks: {none}"
    if low:
        needed = in_order(first_after(each.releases, report.releases) for each in low)[-1]
        first_places = (
            f"{each.path}:{each.span.line} `{each.name or each.message}`"
            for each in sorted(low, key=lambda each: -len(each.releases))  # most broken first
        )
        shown = ", ".join(islice(first_places, _FIRST))
        yield (
            f"lower bound too low: the code needs torch >= {needed}, {_places_of(low)} "
            f"(--details); {shown}"
        )
    elif report.releases:
        yield f"lower bound: oldest release looked at: {report.releases[0]}; nothing red"


def _places_of(findings: Sequence[Finding]) -> str:
    return counted(sum(1 + len(each.also) for each in findings), "place")


def _breaks(red: Sequence[Finding]) -> list[list[str]]:
    """A row for each pair of a file and a name of torch (or the title of the problem, if a finding
    has no name), with the releases.
    """
    titles = {code.code: code.title for code in CODES}
    rows: dict[tuple[str, str], list[str]] = {}
    for each in red:
        spans = rows.setdefault((each.path, each.name or titles[each.code]), [])
        spans += [each.shown_releases] if each.shown_releases not in spans else []
    return [[path, name, "; ".join(spans)] for (path, name), spans in rows.items()]


def _table(heads: list[str], rows: Sequence[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def render_usage(report: UsageReport, form: str) -> str:
    """Render private names with the releases that have them and their places as text or json."""
    if form == "json":
        return json.dumps({"schema": _JSON_SCHEMA, **asdict(report)}, indent=1) + "\n"
    rows = [
        [
            each.name,
            each.since,
            each.until,
            show_releases(each.lacking, report.releases) if each.lacking else "",
            _places(each),
        ]
        for each in report.names
    ]
    lines = list(_table(["name", "since", "until", "lacking in", "used at"], rows)) if rows else []
    lines += [f"releases: {each}; --torch SPEC judges others" for each in report.ranges]
    lines += [f"not readable as Python: {each}" for each in report.unreadable]
    broken = sum(bool(each.ungated) for each in report.names)
    names, files = counted(len(rows), "private name"), _of_files(len(report.files), report.walked)
    lines.append(
        f"{names} in {files}; {broken} used on a release that lacks it, of "
        f"{_releases(report.releases)}"
    )
    return escape_control("\n".join(lines)) + "\n"


def _of_files(judged: int, walked: int) -> str:
    """`1 of 3 files`; `1 file` if no folder was searched, or all of it was judged."""
    return f"{judged} of {counted(walked, 'file')}" if judged < walked else counted(judged, "file")


def _releases(releases: Sequence[str]) -> str:
    """`10 releases (2.9.0 to 2.15.0)`, `torch 2.9.1`, `no release`."""
    if len(releases) < 2:
        return f"torch {releases[0]}" if releases else "no release"
    return f"{len(releases)} releases ({releases[0]} to {releases[-1]})"


def _places(name: UsedName) -> str:
    first, *others = name.ungated or name.places
    return (
        first
        + (f" and {len(others)} more" if others else "")
        + (" (runs there)" if name.ungated else "")
    )


def _finding_lines(finding: Finding, details: bool) -> Iterator[str]:
    span = finding.span
    note = "note: " if finding.severity is Severity.NOTE else ""
    yield f"{finding.path}:{span.line}:{span.column}: {finding.code} {note}{_message(finding)}"
    if finding.line.strip():
        yield from _source_lines(finding.line.expandtabs(1), span.column - 1, span.width)
    if finding.also:
        lines = ", ".join(dict.fromkeys(str(span.line) for span in finding.also))
        yield f"    the same at line{'s' * (',' in lines)} {lines}"
    if finding.evidence:
        yield f"    {finding.evidence}"
    if details and finding.detail:
        yield from (f"    {line}" for line in finding.detail.splitlines())


def _source_lines(line: str, start: int, width: int) -> Iterator[str]:
    """A line of source and a caret below; a long line is cut around the caret."""
    first, end = max(0, start - _AROUND), start + min(width, _AROUND)
    before = ("... " if first else "") + escape_control(line[first:start])
    marked = escape_control(line[start:end])
    after = escape_control(line[end : end + _AROUND]) + (
        " ..." if end + _AROUND < len(line) else ""
    )
    yield f"    {before}{marked}{after}"
    yield f"    {' ' * len(before)}{'^' * max(1, len(marked))}"


def _annotation(finding: Finding) -> str:
    kind = "error" if finding.severity is Severity.RED else "notice"
    line, column = finding.span.line, finding.span.column
    return annotation(
        kind, _message(finding), file=finding.path, line=line, col=column, title=finding.code
    )


def _json(report: Report) -> dict[str, object]:
    return {
        "schema": _JSON_SCHEMA,
        "files": list(report.files),
        "releases": list(report.releases),
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity.value,
                "path": finding.path,
                "name": finding.name,
                "when": finding.when.value if finding.when else "",
                **asdict(finding.span),
                "also": [asdict(span) for span in finding.also],
                "releases": list(finding.releases),
                "range": finding.shown_releases,
                "message": finding.message,
                "fix": finding.fix,
                "evidence": finding.evidence,
                "detail": finding.detail,
            }
            for finding in report.findings
        ],
        "ranges": list(report.ranges),
        "ahead": list(report.ahead),
    }


def _result(finding: Finding) -> Result:
    place, *also = (
        Place(path=finding.path, line=span.line, columns=(span.column, span.column + span.width))
        for span in (finding.span, *finding.also)
    )
    is_red = finding.severity is Severity.RED
    return sarif_result(finding.code, _message(finding), place, is_red=is_red, also=also)
