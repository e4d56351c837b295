"""Lint findings as GitHub workflow commands: annotations on the lines of a pull request."""

from __future__ import annotations

from patchgate.lint.findings import Finding, Severity
from patchgate.lint.run import Report
from patchgate.report.github import annotation


def as_github(report: Report) -> str:
    return "".join(f"{_command(each)}\n" for each in report.findings)


def _command(each: Finding) -> str:
    kind = "error" if each.severity is Severity.RED else "notice"
    releases = f" [{each.shown_releases}]" if each.shown_releases else ""
    fix = f"; {each.fix}" if each.fix else ""
    text = f"{each.message}{releases}{fix}"
    return annotation(kind, text, file=each.path, line=each.spot.line, col=each.spot.column, title=each.code)
