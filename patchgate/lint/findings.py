"""Remarks about single releases -> findings about ranges of them.

Decides how a finding is worded and merged, and how a range of releases is shown. Knows no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from packaging.version import Version

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Span, Usage


class Severity(str, Enum):
    RED = "red"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class View:
    """One release, what the file does in it, whether the manifest claims it and the matrix runs it."""

    release: Release
    usage: Usage
    claimed: bool = True
    in_matrix: bool = False
    source: str = ""

    @property
    def version(self) -> str:
        return self.release.version


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
class Finding:
    """What is reported: one line of a file, one code, the releases for which it holds."""

    code: str
    severity: Severity
    path: str
    span: Span
    releases: tuple[str, ...]
    shown_releases: str
    message: str
    fix: str = ""
    evidence: str = ""
    detail: str = ""
    line: str = ""


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
                line=lines[last.span.line - 1] if 0 < last.span.line <= len(lines) else "",
            )
        )
    return sorted(findings, key=lambda each: (each.span, each.code, each.releases, each.message))


def lines_of(source: str) -> list[str]:
    """Lines as Python's parser counts them (form feeds and the like do not end one)."""
    return re.split(r"\r\n|\r|\n", source)


def _in_characters(span: Span, lines: Sequence[str]) -> Span:
    """The parser counts UTF-8 bytes; people and editors count characters."""
    if not 0 < span.line <= len(lines) or lines[span.line - 1].isascii():
        return span
    text = lines[span.line - 1].encode("utf-8", errors="replace")
    start = len(text[: span.column - 1].decode("utf-8", errors="ignore"))
    end = len(text[: span.column - 1 + span.width].decode("utf-8", errors="ignore"))
    return Span(line=span.line, column=start + 1, width=max(1, end - start))


def show_releases(found: Sequence[str], known: Sequence[str]) -> str:
    """`2.10 and before`, `from 2.13`, `2.11 to 2.12`, joined by commas; `every release` when it is."""
    if not found or len(set(found)) == len(known) > 1:
        return "every release" if found else "no release"
    runs: list[list[int]] = []
    for at, version in enumerate(known):
        if version in found:
            if runs and runs[-1][-1] == at - 1:
                runs[-1].append(at)
            else:
                runs.append([at])
    return ", ".join(_run_text(run[0], run[-1], known) for run in runs)


def _run_text(first: int, last: int, known: Sequence[str]) -> str:
    start = _short(known[first], first == 0 or _minor(known[first - 1]) != _minor(known[first]))
    end = _short(known[last], last == len(known) - 1 or _minor(known[last + 1]) != _minor(known[last]))
    if first == 0 and last < len(known) - 1:
        return f"{end} and before"
    if last == len(known) - 1 and first > 0:
        return f"from {start}"
    if first == last:
        whole = all(_minor(each) != _minor(known[first]) for at, each in enumerate(known) if at != first)
        return _short(known[first], whole)
    return start if start == end else f"{start} to {end}"


def _minor(version: str) -> tuple[int, int]:
    parsed = Version(version)
    return parsed.major, parsed.minor


def _short(version: str, whole: bool) -> str:
    return ".".join(map(str, _minor(version))) if whole else version
