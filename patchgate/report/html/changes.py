"""The last runs of a history -> what a sweep reports first: what turned, failures by their cause, flaky cells.

Decides wording, order and where a list is cut, and which cell of the page each line leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchgate.checks.registry import catalogue
from patchgate.model.results import Regressions, RunVerdicts, VerdictKey
from patchgate.report.html.page import Address

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


def news(regressions: Regressions) -> News:
    """The same, ready for the page: each long list cut, each line with its cell."""
    turned = regressions.transitions or ()
    causes = [
        Cause(
            bucket=group.bucket,
            code=group.code,
            title=catalogue()[group.code].title if group.code in catalogue() else "",
            signature=group.signature,
            count=len(group.keys),
            lines=tuple(_line(key) for key in group.keys[:_LONGEST]),
        )
        for group in regressions.groups
    ]
    return News(
        first=regressions.transitions is None,
        turned=tuple(_line(each.key, str(each)) for each in turned[:_LONGEST]),
        more=max(0, len(turned) - _LONGEST),
        causes=tuple(causes),
        flaky=tuple(_line(key) for key in regressions.flaky[:_LONGEST]),
        turns=_turns(regressions.runs),
    )


def _turns(runs: Sequence[RunVerdicts]) -> dict[Address, str]:
    turns: dict[Address, list[str]] = {}
    for number, verdicts in enumerate(runs):
        for key, verdict in verdicts.items():
            marks = turns.setdefault(_address(key), ["-"] * len(runs))
            marks[number] = max(marks[number], _MARKS[verdict.colour], key=_WORST_LAST.index)
    return {address: "".join(marks) for address, marks in turns.items() if len({*marks}) > 1}


def _line(key: VerdictKey, how: str = "") -> Line:
    return Line(address=_address(key), subject=key.subject, how=how)


def _address(key: VerdictKey) -> Address:
    return Address(key.patch, key.check, key.item, key.torch)
