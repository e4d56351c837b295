"""PG110: an imported module of torch does not exist. Quiet in `try`, under guards and outside torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.rules.missing import missing_references, outside, severity_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view, reference in missing_references(views, "module"):
        yield Remark(
            code="PG110",
            version=view.version,
            span=reference.span,
            message=f"module `{reference.dotted}` missing{outside(reference)}",
            severity=severity_of(reference),
        )
