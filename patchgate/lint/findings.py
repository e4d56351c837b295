"""Remarks about single releases -> findings about ranges of them, worded and in order.

A rule gets views and yields remarks. What it says alike of several releases becomes one finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Span, Usage
from patchgate.model.records import Code
from patchgate.model.versions import show_releases


class Severity(str, Enum):
    """RED fails the run; a NOTE is only shown."""

    RED = "red"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What a rule says about one release. `evidence` and `detail` may differ between releases."""

    code: str
    version: str
    span: Span
    message: str
    severity: Severity = Severity.RED
    fix: str = ""
    evidence: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class View:
    """One release, what the file does in it, whether the manifest claims it and the matrix runs it."""

    release: Release
    usage: Usage
    claimed: bool = True
    in_matrix: bool = False

    @property
    def version(self) -> str:
        return self.release.version

    def remark(
        self,
        code: Code,
        span: Span,
        message: str,
        *,
        severity: Severity = Severity.RED,
        fix: str = "",
        evidence: str = "",
        detail: str = "",
    ) -> Remark:
        """What a rule says about this release."""
        return Remark(
            code=code.code,
            version=self.version,
            span=span,
            message=message,
            severity=severity,
            fix=fix,
            evidence=evidence,
            detail=detail,
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is reported: one line of a file, one code, the releases for which it holds.

    `span` counts characters; `line` is the text of its line. `shown_releases` words `releases` as ranges.
    """

    code: str
    severity: Severity
    path: str
    span: Span
    message: str
    releases: tuple[str, ...] = ()
    shown_releases: str = ""
    fix: str = ""
    evidence: str = ""
    detail: str = ""
    line: str = ""


def finding_in_file(code: Code, path: str, span: Span, message: str, source: str, fix: str = "") -> Finding:
    """A red finding about the file itself, of no release."""
    line = _line(lines_of(source), span)
    return Finding(code=code.code, severity=Severity.RED, path=path, span=span, message=message, fix=fix, line=line)


def merged(remarks: Iterable[Remark], path: str, known: Sequence[str], source: str) -> list[Finding]:
    """One finding for all releases in which a rule says the same about the same place."""
    groups: dict[tuple[object, ...], dict[str, Remark]] = {}
    for each in remarks:
        key = (each.span, each.code, each.message, each.severity, each.fix)
        groups.setdefault(key, {}).setdefault(each.version, each)
    lines = lines_of(source)
    findings = []
    for group in groups.values():
        releases = tuple(version for version in known if version in group)
        last = group[releases[-1]]
        findings.append(
            Finding(
                code=last.code,
                severity=last.severity,
                path=path,
                span=_in_characters(last.span, lines),
                releases=releases,
                shown_releases=show_releases(releases, known),
                message=last.message,
                fix=last.fix,
                evidence=last.evidence,
                detail=last.detail,
                line=_line(lines, last.span),
            )
        )
    return sorted(findings, key=lambda each: (each.span, each.code, each.releases, each.message))


def lines_of(source: str) -> list[str]:
    """Lines as Python's parser counts them (form feeds and the like do not end one)."""
    return re.split(r"\r\n|\r|\n", source)


def _line(lines: Sequence[str], span: Span) -> str:
    return lines[span.line - 1] if 0 < span.line <= len(lines) else ""


def _in_characters(span: Span, lines: Sequence[str]) -> Span:
    """The parser counts UTF-8 bytes; people and editors count characters."""
    line = _line(lines, span)
    if line.isascii():
        return span
    text = line.encode("utf-8", errors="replace")
    start = len(text[: span.column - 1].decode("utf-8", errors="ignore"))
    end = len(text[: span.column - 1 + span.width].decode("utf-8", errors="ignore"))
    return Span(line=span.line, column=start + 1, width=max(1, end - start))
