"""PG110: an imported module of torch does not exist. Quiet in `try`, under guards and outside torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.rules.missing import missing_touches, outside, severity_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view, touch in missing_touches(views, "module"):
        yield Remark(
            code="PG110",
            version=view.version,
            spot=touch.spot,
            message=f"module `{touch.dotted}` missing{outside(touch)}",
            severity=severity_of(touch),
        )
