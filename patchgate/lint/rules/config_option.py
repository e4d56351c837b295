"""PG116: an option of a config module does not exist. Quiet under `hasattr`, and for the module's methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.rules.missing import missing_references, outside, severity_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view, reference in missing_references(views, "config"):
        yield Remark(
            code="PG116",
            version=view.version,
            span=reference.span,
            message=f"config option `{reference.dotted}` missing{outside(reference)}",
            severity=severity_of(reference),
        )
