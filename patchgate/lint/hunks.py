"""Unified diffs of torch's sources: does each hunk still apply on each release.

Decides exactly, with an offset, or not at all. Refuses to guess where a release's sources are not at hand.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from patchgate.lint.findings import Finding, Remark, Severity, lines_of, merged, show_releases
from patchgate.lint.index.sources import PROJECTS, Sources
from patchgate.lint.interpret.references import Span

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from unidiff.patch import Hunk

UNPLACED = "PG129"


def lint_diff(
    text: str, path: str, known: Sequence[str], sources: Sources, claimed: SpecifierSet | None = None
) -> list[Finding]:
    """A finding for each hunk that does not apply as written on a release that is claimed."""
    # Imported here: a patch in Python, the usual case, must not pay for it.
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        patch = PatchSet(lines_of_diff(text))
    except UnidiffParseError as error:
        remark = Remark(code="PG127", version=known[-1], span=Span(line=1, column=1), message=f"not a diff: {error}")
        return merged([remark], path, known, text)
    remarks: list[Remark] = []
    wanted = [version for version in known if claimed is None or claimed.contains(version, prereleases=True)]
    for file in patch:
        if not file.path.endswith(".py") or file.path.split("/")[0] not in PROJECTS:
            continue  # the tests of torch's own repository, for one, are in no wheel
        texts = {version: sources.text(version, file.path) for version in wanted}
        if all(text is None for text in texts.values()):
            return merged(_unplaced(wanted, path), path, known, text)
        lines = {version: lines_of(text) if text else [] for version, text in texts.items() if text is not None}
        there = {version: found for version, found in lines.items() if found or not file.is_added_file}
        for hunk in file:
            remarks += _judged(hunk, file.path, there)
    return merged(remarks, path, known, text)


def _unplaced(known: Sequence[str], path: str) -> list[Remark]:
    return [
        Remark(
            code=UNPLACED,
            version=version,
            span=Span(line=1, column=1),
            message="cannot tell whether the hunks apply: no sources of a release at hand",
            severity=Severity.NOTE,
            fix=f"patchgate lint --fetch {shlex.quote(path)}   (or --sources FOLDER, a site-packages with torch in it)",
        )
        for version in known
    ]


def lines_of_diff(text: str) -> list[str]:
    return [f"{line}\n" for line in lines_of(text)]


def _judged(hunk: Hunk, path: str, lines: Mapping[str, Sequence[str]]) -> Iterator[Remark]:
    """Where the hunk applies as written there is nothing to say; elsewhere all releases are told together."""
    span = Span(line=(hunk[0].diff_line_no or 2) - 1 if len(hunk) else 1, column=1, width=2)
    expected = [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_removed]
    offsets = {version: place(expected, hunk.source_start, found) for version, found in lines.items()}
    evidence = _told(offsets)
    for version, offset in offsets.items():
        if offset is None:
            what = "does not apply to" if lines[version] else "has no file"
            message = f"hunk {what} `{path}`"
            yield Remark(code="PG127", version=version, span=span, message=message, evidence=evidence)
        elif offset:
            yield Remark(
                code="PG128",
                version=version,
                span=span,
                message=f"hunk applies to `{path}` at another line",
                severity=Severity.NOTE,
                evidence=evidence,
                detail="\n".join(f"{version}: {offset:+d} lines" for version, offset in offsets.items() if offset),
            )


def _told(offsets: Mapping[str, int | None]) -> str:
    """`exactly: 2.11; with an offset: 2.12; not at all: from 2.13`."""
    groups: dict[str, list[str]] = {"exactly": [], "with an offset": [], "not at all": []}
    for version, offset in offsets.items():
        groups["not at all" if offset is None else "with an offset" if offset else "exactly"].append(version)
    return "; ".join(f"{how}: {show_releases(found, list(offsets))}" for how, found in groups.items() if found)


def place(expected: Sequence[str], start: int, lines: Sequence[str]) -> int | None:
    """How far from `start` (1-based) the expected lines are: 0, the nearest offset, or None."""
    if not expected:
        return 0
    wanted = list(expected)
    places = [
        at - (start - 1)
        for at, line in enumerate(lines)
        if line == wanted[0] and list(lines[at : at + len(wanted)]) == wanted
    ]
    return min(places, key=abs, default=None)
