"""PG127, PG128, PG129: hunks of a diff of torch's sources that no longer apply on a release.

A hunk applies exactly, with an offset, or not at all. On a release whose sources are not available,
hunks are not judged.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from patchgate.lint.findings import Finding, Severity, lines_of, merged
from patchgate.lint.index.sources import PROJECTS, Sources
from patchgate.lint.interpret.references import Span
from patchgate.model.records import read_codes
from patchgate.model.versions import show_releases

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from unidiff.patch import Hunk

DOES_NOT_APPLY, APPLIES_ELSEWHERE, NOT_PLACED = read_codes("""
PG127 hunk does not apply
    The lines that a hunk expects are not in the sources of these releases.
    Why: The diff cannot be applied there.
    Fix: Rebase the diff on these releases, or leave them out of its claims.
PG128 hunk applies elsewhere
    The hunk applies, but at another line than it names.
    Why: It still works. The further away it applies, the more it needs a review.
    Fix: Nothing, or refresh the diff.
PG129 hunks not judged
    The hunks of the diff were not judged, because the sources of no release are available.
    Why: The index has names and fingerprints, not the lines that a hunk must find.
    Fix: `patchgate lint --fetch PATCH`, or `--sources FOLDER` with a site-packages that has torch
    in it.
""")
_START = Span(line=1, column=1)


def lint_diff(
    text: str,
    path: str,
    known: Sequence[str],
    sources: Sources,
    claimed: SpecifierSet | None = None,
) -> list[Finding]:
    """Return a finding for each hunk that does not apply as written on a claimed release."""
    # Imported here: a patch in Python, the usual case, does not need it.
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        patch = PatchSet([f"{line}\n" for line in lines_of(text)])
        if not patch:
            raise UnidiffParseError("it changes no file")
    except (UnidiffParseError, ValueError) as error:  # ValueError: a number with too many digits
        code, message = DOES_NOT_APPLY.code, f"not a diff: {error}"
        return merged(
            [Finding(code=code, releases=(known[-1],), span=_START, message=message)],
            path,
            known,
            text,
        )
    findings: list[Finding] = []
    left = [file for file in patch if not _is_judged(file.path)]
    if left and len(left) == len(patch):
        return merged([_none_judged(left[0].path, len(left), known[-1])], path, known, text)
    wanted = [
        version
        for version in known
        if claimed is None or claimed.contains(version, prereleases=True)
    ]
    for file in patch:
        if not _is_judged(file.path):
            continue  # some files are in no wheel, such as the tests of torch's own repository
        texts = sources.texts(wanted, file.path)
        if all(text is None for text in texts.values()):
            return merged(_not_placed(wanted, path), path, known, text)
        lines = {
            version: lines_of(text) if text else []
            for version, text in texts.items()
            if text is not None
        }
        there = {
            version: found for version, found in lines.items() if found or not file.is_added_file
        }
        for hunk in file:
            findings += _hunk_findings(hunk, file.path, there)
    return merged(findings, path, known, text)


def _is_judged(path: str) -> bool:
    return path.endswith(".py") and path.split("/")[0] in PROJECTS


def _none_judged(path: str, count: int, version: str) -> Finding:
    """The note on a diff that changes no Python file of torch's package."""
    more = f" and {count - 1} more" if count > 1 else ""
    return Finding(
        code=NOT_PLACED.code,
        releases=(version,),
        span=_START,
        message=f"no hunk is judged: `{path}`{more} is no Python file of torch's package",
        severity=Severity.NOTE,
    )


def _not_placed(versions: Sequence[str], path: str) -> Iterator[Finding]:
    fix = (
        f"patchgate lint --fetch {shlex.quote(path)}   (or --sources FOLDER, a site-packages "
        "with torch in it)"
    )
    for version in versions:
        yield Finding(
            code=NOT_PLACED.code,
            releases=(version,),
            span=_START,
            message="cannot tell whether the hunks apply: the sources of no release are available",
            severity=Severity.NOTE,
            fix=fix,
        )


def _hunk_findings(hunk: Hunk, path: str, lines: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Yield a finding for each release on which the hunk does not apply as written.

    `lines`: version -> the lines of the file in that release.
    """
    span = Span(line=(hunk[0].diff_line_no or 2) - 1 if len(hunk) else 1, column=1, width=2)
    expected = [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_removed]
    offsets = {
        version: offset_of(expected, hunk.source_start, text) for version, text in lines.items()
    }
    evidence = _summary(offsets)
    for version, offset in offsets.items():
        if offset is None:
            what = "does not apply to" if lines[version] else "has no file"
            message = f"hunk {what} `{path}`"
            code = DOES_NOT_APPLY.code
            yield Finding(
                code=code,
                releases=(version,),
                span=span,
                message=message,
                name=message,
                evidence=evidence,
            )
        elif offset:
            yield Finding(
                code=APPLIES_ELSEWHERE.code,
                releases=(version,),
                span=span,
                message=f"hunk applies to `{path}` at another line",
                severity=Severity.NOTE,
                evidence=evidence,
                detail="\n".join(
                    f"{version}: {offset:+d} lines" for version, offset in offsets.items() if offset
                ),
            )


def _summary(offsets: Mapping[str, int | None]) -> str:
    """A text such as `exactly: 2.11; with an offset: 2.12; not at all: from 2.13`."""
    groups: dict[str, list[str]] = {"exactly": [], "with an offset": [], "not at all": []}
    for version, offset in offsets.items():
        groups[
            "not at all" if offset is None else "with an offset" if offset else "exactly"
        ].append(version)
    return "; ".join(
        f"{how}: {show_releases(versions, list(offsets))}"
        for how, versions in groups.items()
        if versions
    )


def offset_of(expected: Sequence[str], start: int, lines: Sequence[str]) -> int | None:
    """The distance in lines from `start` (1-based) to the nearest match; None if there is none."""
    if not expected:
        return 0
    wanted = list(expected)
    offsets = [
        at - (start - 1)
        for at, line in enumerate(lines)
        if line == wanted[0] and list(lines[at : at + len(wanted)]) == wanted
    ]
    return min(offsets, key=abs, default=None)
