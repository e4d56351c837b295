"""Lint findings as text: one line each, the source line, a caret. Decides wording only."""

from __future__ import annotations

from collections.abc import Iterator

from patchgate.lint.findings import Finding, Severity
from patchgate.lint.run import NameTold, Report
from patchgate.model.text import escape_control

_AROUND = 100


def as_text(report: Report, *, details: bool = False, names: bool = False) -> str:
    lines = [line for each in report.findings for line in _finding(each, details)]
    if names:
        lines += ["", *(_name(each) for each in report.names)]
    red = sum(each.severity is Severity.RED for each in report.findings)
    notes = len(report.findings) - red
    releases = f"{report.releases[0]} to {report.releases[-1]}" if report.releases else "no releases"
    told = f"{red} red, {notes} note" + "s" * (notes != 1)
    lines.append(f"{len(report.files)} linted against {len(report.releases)} ({releases}): {told}")
    return escape_control("\n".join(lines)) + "\n"


def _finding(each: Finding, details: bool) -> Iterator[str]:
    where = f"{each.path}:{each.spot.line}:{each.spot.column}"
    releases = f" [{each.shown_releases}]" if each.shown_releases else ""
    note = "note: " if each.severity is Severity.NOTE else ""
    fix = f"; {each.fix}" if each.fix else ""
    yield f"{where}: {each.code} {note}{each.message}{releases}{fix}"
    if each.line.strip():
        yield from _pointed_at(each.line.expandtabs(1), each.spot.column - 1, each.spot.width)
    if each.evidence:
        yield f"    {each.evidence}"
    if details and each.detail:
        yield from (f"    {line}" for line in each.detail.splitlines())


def _pointed_at(line: str, at: int, width: int) -> Iterator[str]:
    """A line and a caret below; of a long one what is around the caret."""
    first, end = max(0, at - _AROUND), at + min(width, _AROUND)
    before = ("... " if first else "") + escape_control(line[first:at])
    marked = escape_control(line[at:end])
    after = escape_control(line[end : end + _AROUND]) + (" ..." if end + _AROUND < len(line) else "")
    yield f"    {before}{marked}{after}"
    yield f"    {' ' * len(before)}{'^' * max(1, len(marked))}"


def _name(each: NameTold) -> str:
    parts = [("present", each.present), ("maybe", each.maybe), ("missing", each.missing)]
    return f"{each.name}: " + "; ".join(f"{word} {ranges}" for word, ranges in parts if ranges)
