"""What rules read (views of a file in single releases) and what they find, merged into ranges of releases.

What a rule says alike of several releases is one finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
class Finding:
    """One line of a file, one code, the releases for which it holds.

    A rule gives one for each release; `merged` makes one of those that say the same, and fills in `path`, `line` (the
    text of the line) and `shown_releases` (`releases` as ranges). From then on `span` counts characters.
    """

    code: str
    span: Span
    message: str
    severity: Severity = Severity.RED
    releases: tuple[str, ...] = ()
    fix: str = ""
    #: What proves it, and what `--details` shows; both may differ between releases.
    evidence: str = ""
    detail: str = ""
    path: str = ""
    line: str = ""
    shown_releases: str = ""


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

    def finding(
        self,
        code: Code,
        span: Span,
        message: str,
        *,
        severity: Severity = Severity.RED,
        fix: str = "",
        evidence: str = "",
        detail: str = "",
    ) -> Finding:
        """What a rule says of this release."""
        return Finding(
            code=code.code,
            span=span,
            message=message,
            severity=severity,
            releases=(self.version,),
            fix=fix,
            evidence=evidence,
            detail=detail,
        )


def finding_in_file(code: Code, path: str, span: Span, message: str, source: str, fix: str = "") -> Finding:
    """A red finding about the file itself, of no release."""
    line = _line(lines_of(source), span)
    return Finding(code=code.code, path=path, span=span, message=message, fix=fix, line=line)


def merged(findings: Iterable[Finding], path: str, known: Sequence[str], source: str) -> list[Finding]:
    """One finding for all releases in which a rule says the same about the same place."""
    groups: dict[tuple[object, ...], dict[str, Finding]] = {}
    for finding in findings:
        key = (finding.span, finding.code, finding.message, finding.severity, finding.fix)
        groups.setdefault(key, {}).setdefault(finding.releases[0], finding)
    lines, result = lines_of(source), []
    for group in groups.values():
        releases = tuple(version for version in known if version in group)
        last = group[releases[-1]]
        span, line, text = _in_characters(last.span, lines), _line(lines, last.span), show_releases(releases, known)
        result.append(replace(last, path=path, span=span, line=line, releases=releases, shown_releases=text))
    return sorted(result, key=lambda each: (each.span, each.code, each.releases, each.message))


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
