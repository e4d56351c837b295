"""PG126: a function is assigned to a name that torch does not have.

Quiet for markers that are no functions, and for names that the patch itself reads: PG111 says so if it does so
too early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Presence, Reachability
from patchgate.lint.rules.missing_name import same_name
from patchgate.model.records import Code

TARGET_MISSING = Code(
    code="PG126",
    title="target missing",
    what="The patch assigns a function to a name that these releases do not have.",
    why="It creates a new attribute that nothing in torch ever calls.",
    fix="Correct the name, or narrow the version gate to the releases that have it.",
)


def check(views: Sequence[View]) -> Iterator[Finding]:
    for view in views:
        for rebinding in view.usage.rebindings:
            if rebinding.presence is not Presence.MISSING or rebinding.function is None:
                continue
            owner = rebinding.target.rpartition(".")[0]
            read = any(same_name(view, reference, owner, rebinding.name) for reference in view.usage.references)
            if read or rebinding.reachability is Reachability.GUARDED:
                continue
            severity = Severity.RED if rebinding.reachable else Severity.NOTE
            message = f"target `{rebinding.target}` missing{rebinding.why_not}"
            yield view.finding(TARGET_MISSING, rebinding.span, message, severity=severity, of=rebinding)
