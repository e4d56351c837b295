"""Unified diffs of torch's sources: does each hunk still apply on each release.

Decides exactly, with an offset, or not at all. Refuses to guess where a release's sources are not at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from patchgate.surface.findings import Finding, Remark, Severity, lines_of, merged
from patchgate.surface.sources import PROJECTS, Sources
from patchgate.surface.usage import Spot

if TYPE_CHECKING:
    from unidiff.patch import Hunk


def lint_diff(text: str, path: str, known: Sequence[str], sources: Sources) -> list[Finding]:
    """A finding for each hunk that does not apply as written."""
    # Imported here: a patch in Python, the usual case, must not pay for it.
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        patch = PatchSet(lines_of_diff(text))
    except UnidiffParseError as error:
        remark = Remark(code="PG127", version=known[-1], spot=Spot(line=1, column=1), message=f"not a diff: {error}")
        return merged([remark], path, known, text)
    remarks: list[Remark] = []
    unplaced = True
    for file in patch:
        if not file.path.endswith(".py") or file.path.split("/")[0] not in PROJECTS:
            continue  # the tests of torch's own repository, for one, are in no wheel
        for hunk in file:
            line = (hunk[0].diff_line_no or 2) - 1 if len(hunk) else 1
            for version in known:
                lines = sources.text(version, file.path)
                unplaced = unplaced and lines is None
                if lines is not None and not (file.is_added_file and not lines):
                    spot = Spot(line=line, column=1, width=2)
                    remarks += _judged(hunk, file.path, version, lines_of(lines) if lines else [], spot)
    if unplaced:
        message = "no sources of a known release at hand: hunks were not placed"
        last = Remark(
            code="PG128",
            version=known[-1],
            spot=Spot(line=1, column=1),
            message=message,
            severity=Severity.NOTE,
            fix="--fetch, or --sources FOLDER (a site-packages with torch in it)",
        )
        remarks.append(last)
    return merged(remarks, path, known, text)


def lines_of_diff(text: str) -> list[str]:
    return [f"{line}\n" for line in lines_of(text)]


def _judged(hunk: Hunk, path: str, version: str, lines: Sequence[str], spot: Spot) -> list[Remark]:
    expected = [line.value.rstrip("\r\n") for line in hunk if line.is_context or line.is_removed]
    offset = place(expected, hunk.source_start, lines)
    if offset == 0:
        return []
    if offset is None:
        what = "does not apply to" if lines else "has no file"
        return [Remark(code="PG127", version=version, spot=spot, message=f"hunk {what} `{path}`")]
    message = f"hunk applies to `{path}` at another line"
    return [
        Remark(
            code="PG128",
            version=version,
            spot=spot,
            message=message,
            severity=Severity.NOTE,
            evidence=f"offset {offset:+d} in {version}",
        )
    ]


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
