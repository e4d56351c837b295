"""Views, each of one file in one release, and the findings that rules make from them.

Findings that say the same about several releases are merged into one. `When` says on which
releases a finding does harm.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache

from packaging.version import Version

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Call, Hook, Rebinding, Reference, Span, Usage
from patchgate.model.records import Code, record
from patchgate.model.versions import show_releases


class When(str, Enum):
    #: On the newest release that the project admits, or on the installed release.
    NOW = "broken now"
    #: On the first release on which anything breaks, among releases newer than the admitted ones.
    NEXT = "breaks next"
    #: Only on the oldest releases that the project admits.
    LOWER_BOUND = "lower bound too low"
    #: On other releases that the project admits, but not on the newest.
    OLDER = "older"


def when(releases: Sequence[str], admitted: Sequence[str], installed: str = "") -> When:
    """Say when a fault on `releases` hurts. `admitted` are the releases that the project admits,
    oldest first.
    """
    if not releases or not admitted or {admitted[-1], installed} & {*releases}:
        return When.NOW
    return When.LOWER_BOUND if list(releases) == list(admitted[: len(releases)]) else When.OLDER


def first_after(releases: Collection[str], admitted: Sequence[str]) -> str:
    """The oldest admitted release that is newer than all of `releases`: the lower bound that the
    code needs.
    """
    newest = max(map(Version, releases))
    return next((each for each in admitted if Version(each) > newest), "")


def newer(known: Sequence[str], admitted: Sequence[str]) -> list[str]:
    """The known releases that are newer than every release that the project admits."""
    return [each for each in known if admitted and Version(each) > Version(admitted[-1])]


# A folded note shows at most this many names.
_SHOWN = 4
# A placeholder in a rule's fix for the path of the linted file, quoted for a shell.
THIS_FILE = "{this file}"


class Severity(str, Enum):
    """RED fails the run; a NOTE is only shown."""

    RED = "red"
    NOTE = "note"


@record
class Finding:
    """One line of a file, one code, and the releases for which it holds.

    A rule makes a finding for each release. `merged` joins the findings that say the same and fills
    in `path`, `line` (the text of the line) and `shown_releases` (`releases` as ranges). Before
    `merged`, `span` counts bytes; afterwards it counts characters.
    """

    code: str
    span: Span
    message: str
    severity: Severity = Severity.RED
    releases: tuple[str, ...] = ()
    fix: str = ""
    #: The proof, and the text that `--details` shows; both may differ between releases.
    evidence: str = ""
    detail: str = ""
    path: str = ""
    line: str = ""
    shown_releases: str = ""
    #: The name of torch that the finding is about, and the innermost version check around it.
    name: str = ""
    gate: Span | None = None
    #: The version check keeps the line from running in these releases.
    outside: bool = False
    #: Other places in the file that have the same finding.
    also: tuple[Span, ...] = ()
    #: When the finding hurts, if it is red or will be red on a newer release.
    when: When | None = None


@record
class View:
    """One release, and a file's uses of torch as they are in that release.

    `claimed` is true unless a manifest leaves the release out; `in_matrix` is true if the release
    is in the matrix; `asked` is true if the user, not the project, states the releases.
    """

    release: Release
    usage: Usage
    claimed: bool = True
    in_matrix: bool = False
    asked: bool = False

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
        of: Reference | Rebinding | Hook | Call | None = None,
    ) -> Finding:
        """A finding of a rule on this release; `of` is the piece of the patch in question."""
        name = "" if of is None else of.target if isinstance(of, Rebinding) else of.dotted
        return Finding(
            code=code.code,
            span=span,
            message=message,
            severity=severity,
            releases=(self.version,),
            fix=fix,
            evidence=evidence,
            detail=detail,
            name=name,
            gate=of.gates[-1] if of is not None and of.gates else None,
            outside=of is not None and not of.reachable,
        )


def finding_in_file(
    code: Code, path: str, span: Span, message: str, source: str, fix: str = ""
) -> Finding:
    """A red finding about the file itself, for no particular release."""
    line = _line(lines_of(source), span)
    return Finding(code=code.code, path=path, span=span, message=message, fix=fix, line=line)


def merged(
    findings: Iterable[Finding], path: str, known: Sequence[str], source: str
) -> list[Finding]:
    """Join the findings of a rule at one place into one finding for all its releases. The text of
    the newest release is kept; other texts become details.
    """
    groups: dict[tuple[object, ...], dict[str, Finding]] = {}
    for finding in findings:
        key = (finding.span, finding.code, finding.severity, finding.name)
        groups.setdefault(key, {}).setdefault(finding.releases[0], finding)
    lines, result = lines_of(source), []
    for group in groups.values():
        releases = tuple(version for version in known if version in group)
        last = group[releases[-1]]
        span = _in_characters(last.span, lines)
        line = _line(lines, last.span)
        text = show_releases(releases, known)
        detail = "\n".join(filter(None, [*_other_wordings(group, last, known), last.detail]))
        alike = [version for version in releases if group[version].message == last.message]
        message = (
            last.message
            if len(alike) == len(releases)
            else f"{last.message} (this text: {show_releases(alike, known)}; the others: --details)"
        )
        fix = last.fix.replace(THIS_FILE, shlex.quote(path))
        placed = replace(
            last, path=path, span=span, line=line, message=message, fix=fix, detail=detail
        )
        result.append(replace(placed, releases=releases, shown_releases=text))
    return sorted(result, key=lambda each: (each.span, each.code, each.releases, each.message))


def folded(findings: Sequence[Finding], source: str) -> list[Finding]:
    """Join findings that say the same about several places into one finding. Join the notes on all
    places that one version check excludes into one note.
    """
    by_gate: dict[Span, list[Finding]] = {}
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for each in findings:
        if each.gate is not None and each.severity is Severity.NOTE and each.outside:
            by_gate.setdefault(each.gate, []).append(each)
        else:
            key = (each.code, each.message, each.severity, each.fix, each.releases)
            alike.setdefault(key, []).append(each)
    result = [
        replace(same[0], also=tuple(each.span for each in same[1:])) for same in alike.values()
    ]
    for gate, behind in by_gate.items():
        result += behind if len(behind) == 1 else [_behind(gate, behind, source)]
    return sorted(result, key=lambda each: (each.span, each.code, each.releases, each.message))


def _behind(gate: Span, notes: Sequence[Finding], source: str) -> Finding:
    lines = lines_of(source)
    releases: dict[str, list[str]] = {}
    for each in notes:
        releases.setdefault(each.name or each.message, []).append(each.shown_releases)
    shown = [f"`{name}` [{', '.join(dict.fromkeys(spans))}]" for name, spans in releases.items()]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return replace(
        notes[0],
        span=_in_characters(gate, lines),
        line=_line(lines, gate),
        releases=(),
        shown_releases="",
        message="the version check excludes the releases without "
        f"{', '.join(shown[:_SHOWN])}{more}",
        fix="",
        evidence="",
        detail="\n".join(shown),
        name="",
    )


def _other_wordings(
    group: Mapping[str, Finding], last: Finding, known: Sequence[str]
) -> Iterator[str]:
    """`message [releases]` for each message that differs from the newest release's."""
    wordings: dict[str, list[str]] = {}
    for version, finding in group.items():
        wordings.setdefault(finding.message, []).append(version)
    for message, versions in wordings.items():
        if message != last.message:
            yield f"{message} [{show_releases(versions, known)}]"


@lru_cache(maxsize=2)  # called for each finding of a file
def lines_of(source: str) -> tuple[str, ...]:
    """Split a source into lines as Python's parser does: a form feed does not end a line."""
    return tuple(re.split(r"\r\n|\r|\n", source))


def _line(lines: Sequence[str], span: Span) -> str:
    return lines[span.line - 1] if 0 < span.line <= len(lines) else ""


def _in_characters(span: Span, lines: Sequence[str]) -> Span:
    """Convert columns from the parser's UTF-8 bytes to the characters that people and editors
    count.
    """
    line = _line(lines, span)
    if line.isascii():
        return span
    text = line.encode("utf-8", errors="replace")
    start = len(text[: span.column - 1].decode("utf-8", errors="ignore"))
    end = len(text[: span.column - 1 + span.width].decode("utf-8", errors="ignore"))
    return Span(line=span.line, column=start + 1, width=max(1, end - start))
