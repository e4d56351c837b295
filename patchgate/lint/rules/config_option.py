"""PG116: an option of a config module does not exist. Quiet under `hasattr`, and for the module's methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.rules.missing import missing_touches, outside, severity_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view, touch in missing_touches(views, "config"):
        yield Remark(
            code="PG116",
            version=view.version,
            spot=touch.spot,
            message=f"config option `{touch.dotted}` missing{outside(touch)}",
            severity=severity_of(touch),
        )
