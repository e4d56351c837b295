"""PG126: a function is assigned to a name that torch does not have.

Quiet for markers that are no functions, and for names that the patch itself reads: PG111 tells it if it does so
too early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.interpret.references import Presence, Reachability
from patchgate.lint.rules.missing import same_name


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view in views:
        for each in view.usage.rebindings:
            if (
                each.presence is not Presence.MISSING
                or each.function is None
                or each.reachability is Reachability.GUARDED
            ):
                continue
            owner = each.target.rpartition(".")[0]
            if any(same_name(view, reference, owner, each.name) for reference in view.usage.references):
                continue
            live = each.reachable
            yield Remark(
                code="PG126",
                version=view.version,
                span=each.span,
                message=f"target `{each.target}` missing{'' if live else ' (outside the gate)'}",
                severity=Severity.RED if live else Severity.NOTE,
            )
