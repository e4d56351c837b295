"""A history as text: a series, what changed since the last run, and a check-list for an umbrella issue.

Decides wording and where a long list is cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from patchgate.checks.registry import catalogue
from patchgate.model.text import escape_control
from patchgate.runs.history.regressions import Cell, Group
from patchgate.runs.history.store import Point

_LONGEST = 5
_LAST_CODE = re.compile(r"PG\d+(?=\)?$)")


def render_series(points: Sequence[Point]) -> Iterator[str]:
    """One line a value; an unchanged one is told once, with how often."""
    for patch, torch in sorted({(point.patch, point.torch) for point in points}):
        yield escape_control(f"{patch} on torch {torch}")
        mine = [point for point in points if (point.patch, point.torch) == (patch, torch)]
        start = 0
        for at in range(1, len(mine) + 1):
            if at == len(mine) or mine[at].value != mine[start].value:
                times = f" ({at - start} runs)" if at - start > 1 else ""
                yield escape_control(f"  {mine[start].at}  {mine[start].value}{times}")
                start = at


def render_transitions(changed: Sequence[tuple[Cell, str]]) -> Iterator[str]:
    """Lines about the cells whose verdict is another than in the run before."""
    yield f"{len(changed)} cells changed since the last run" if changed else "nothing changed since the last run"
    for cell, how in changed:
        code = _LAST_CODE.search(how)
        title = f": {catalogue()[code[0]].title}" if code and code[0] in catalogue() else ""
        yield f"  {_shown(cell)}: {how}{title}"


def render_checklist(groups: Sequence[Group], flaky: Sequence[Cell]) -> Iterator[str]:
    """Markdown: a box for each cause, ticked when it is closed."""
    if not groups:
        yield "no failures"
    for group in groups:
        box = "x" if group.bucket == "closed" else " "
        title = catalogue()[group.code].title if group.code in catalogue() else ""
        told = f"{group.code} {title}: {_escape(group.signature)} ({len(group.cells)} cells)"
        yield f"- [{box}] **{group.bucket}** {told}"
        yield from (f"  - {_escape(_shown(cell))}" for cell in group.cells[:_LONGEST])
        if len(group.cells) > _LONGEST:
            yield f"  - and {len(group.cells) - _LONGEST} more"
    if flaky:
        yield f"- [ ] **flaky** ({len(flaky)} cells)"
        yield from (f"  - {_escape(_shown(cell))}" for cell in flaky[:_LONGEST])


def _escape(text: str) -> str:
    return escape_control(text).replace("<", "&lt;").replace("`", "'")


def _shown(cell: Cell) -> str:
    patch, torch, check, subject = cell
    return escape_control(f"{patch} on torch {torch}: {check} {subject}")
