"""The last runs of a history -> what a sweep reports first: what turned, failures by their cause, flaky cells.

Decides wording, order and where a list is cut, and which cell of the page each line leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchgate.checks.registry import catalogue
from patchgate.report.html.page import Address
from patchgate.runs.history.regressions import Cell, Cells, flaky, groups, transitions

_LONGEST = 20
_MARKS = {"green": "g", "grey": "?", "red": "r"}
_WORST_LAST = "-g?r"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One cell, and how it turned."""

    address: Address
    subject: str
    how: str = ""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Failures with one signature; `bucket` is "new", "still", "newly silent" or "closed"."""

    bucket: str
    code: str
    title: str
    signature: str
    count: int
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class News:
    """`first` is true where there was no run before to compare with; `more` counts turned cells that are not listed.

    `turns` has the colours of a cell, run by run ("g", "r", "?" not judged, "-" not there), where they are not all one.
    """

    first: bool
    turned: tuple[Line, ...]
    more: int
    causes: tuple[Cause, ...]
    flaky: tuple[Line, ...]
    turns: dict[Address, str]


def news(runs: Sequence[Cells]) -> News:
    """Of runs in the order of time, the last of which is told about."""
    turned = list(transitions(runs[-2], runs[-1])) if len(runs) > 1 else []
    causes = [
        Cause(
            bucket=group.bucket,
            code=group.code,
            title=catalogue()[group.code].title if group.code in catalogue() else "",
            signature=group.signature,
            count=len(group.cells),
            lines=tuple(_line(cell) for cell in group.cells[:_LONGEST]),
        )
        for group in groups(runs)
    ]
    return News(
        first=len(runs) < 2,
        turned=tuple(_line(cell, how) for cell, how in turned[:_LONGEST]),
        more=max(0, len(turned) - _LONGEST),
        causes=tuple(causes),
        flaky=tuple(_line(cell) for cell in flaky(runs)[:_LONGEST]),
        turns=_turns(runs),
    )


def _turns(runs: Sequence[Cells]) -> dict[Address, str]:
    told: dict[Address, list[str]] = {}
    for number, cells in enumerate(runs):
        for cell, (colour, _, _) in cells.items():
            marks = told.setdefault(_line(cell).address, ["-"] * len(runs))
            marks[number] = max(marks[number], _MARKS[colour], key=_WORST_LAST.index)
    return {address: "".join(marks) for address, marks in told.items() if len({*marks}) > 1}


def _line(cell: Cell, how: str = "") -> Line:
    patch, torch, check, subject = cell
    return Line(address=Address(patch, check, subject.partition(" ")[0], torch), subject=subject, how=how)
