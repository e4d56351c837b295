"""Findings of lint as text, JSON, SARIF 2.1.0 and GitHub annotations.

All four word a finding the same: its message, the releases for which it holds, the fix.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from patchgate.lint.findings import Finding, Severity
from patchgate.lint.rules import CODES
from patchgate.lint.run import NamePresence, Report
from patchgate.model.text import escape_control
from patchgate.report.github import annotation

# Grows when a field of the JSON changes its meaning.
_JSON_SCHEMA = 1
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Characters of a long source line that are shown on either side of a finding.
_AROUND = 100


def render_findings(report: Report, form: str, *, details: bool = False, names: bool = False) -> str:
    """`form` is text, json, github or sarif; `details` and `names` add to the text only."""
    if form == "text":
        return _text(report, details, names)
    if form == "github":
        return "".join(f"{_annotation(finding)}\n" for finding in report.findings)
    return json.dumps(_json(report) if form == "json" else _sarif(report), indent=1) + "\n"


def _message(finding: Finding) -> str:
    releases = f" [{finding.shown_releases}]" if finding.shown_releases else ""
    return finding.message + releases + (f"; {finding.fix}" if finding.fix else "")


def _text(report: Report, details: bool, names: bool) -> str:
    """One line a finding, then the source line with a caret below; a summary at the end."""
    lines = [line for finding in report.findings for line in _finding_lines(finding, details)]
    if names:
        lines += ["", *map(_name_line, report.names)]
    red = sum(finding.severity is Severity.RED for finding in report.findings)
    notes = len(report.findings) - red
    releases = f"{report.releases[0]} to {report.releases[-1]}" if report.releases else "no releases"
    counts = f"{red} red, {notes} note" + "s" * (notes != 1)
    lines.append(f"{len(report.files)} linted against {len(report.releases)} ({releases}): {counts}")
    return escape_control("\n".join(lines)) + "\n"


def _finding_lines(finding: Finding, details: bool) -> Iterator[str]:
    span = finding.span
    note = "note: " if finding.severity is Severity.NOTE else ""
    yield f"{finding.path}:{span.line}:{span.column}: {finding.code} {note}{_message(finding)}"
    if finding.line.strip():
        yield from _source_lines(finding.line.expandtabs(1), span.column - 1, span.width)
    if finding.evidence:
        yield f"    {finding.evidence}"
    if details and finding.detail:
        yield from (f"    {line}" for line in finding.detail.splitlines())


def _source_lines(line: str, start: int, width: int) -> Iterator[str]:
    """A line of source and a caret below; of a long line only what is around the caret."""
    first, end = max(0, start - _AROUND), start + min(width, _AROUND)
    before = ("... " if first else "") + escape_control(line[first:start])
    marked = escape_control(line[start:end])
    after = escape_control(line[end : end + _AROUND]) + (" ..." if end + _AROUND < len(line) else "")
    yield f"    {before}{marked}{after}"
    yield f"    {' ' * len(before)}{'^' * max(1, len(marked))}"


def _name_line(name: NamePresence) -> str:
    parts = [("present", name.present), ("maybe", name.maybe), ("missing", name.missing)]
    return f"{name.name}: " + "; ".join(f"{word} {releases}" for word, releases in parts if releases)


def _annotation(finding: Finding) -> str:
    kind = "error" if finding.severity is Severity.RED else "notice"
    line, column = finding.span.line, finding.span.column
    return annotation(kind, _message(finding), file=finding.path, line=line, col=column, title=finding.code)


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
                **asdict(finding.span),
                "releases": list(finding.releases),
                "range": finding.shown_releases,
                "message": finding.message,
                "fix": finding.fix,
                "evidence": finding.evidence,
                "detail": finding.detail,
            }
            for finding in report.findings
        ],
        "names": [asdict(name) for name in report.names],
    }


def _sarif(report: Report) -> dict[str, object]:
    """For code scanning. The codes' texts are its rules."""
    rules = [
        {
            "id": code.code,
            "shortDescription": {"text": code.title},
            "fullDescription": {"text": f"{code.what} {code.why}"},
            "help": {"text": code.fix},
        }
        for code in CODES
    ]
    run = {
        "tool": {"driver": {"name": "patchgate", "rules": rules}},
        "results": [_sarif_result(finding) for finding in report.findings],
    }
    return {"version": "2.1.0", "$schema": _SARIF_SCHEMA, "runs": [run]}


def _sarif_result(finding: Finding) -> dict[str, object]:
    span = finding.span
    region = {"startLine": span.line, "startColumn": span.column, "endColumn": span.column + span.width}
    location = {"artifactLocation": {"uri": Path(finding.path).as_posix()}, "region": region}
    return {
        "ruleId": finding.code,
        "level": "error" if finding.severity is Severity.RED else "note",
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": location}],
    }
