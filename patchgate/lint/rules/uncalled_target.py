"""PG119: no call in torch goes to the replaced name. Red when other releases do call it, else a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Rebinding
from patchgate.model.records import Code

UNCALLED_TARGET = Code(
    code="PG119",
    title="nothing calls the target",
    what="In these releases no call inside torch goes to the replaced name.",
    why="The patch is installed and does nothing.",
    fix="Find what torch calls now (`patchgate index diff`), or end the gate before these releases.",
)
# Dispatched by name, by torch or by Python itself; no call site spells them out.
_DISPATCHED = ("__", "visit_", "codegen_", "_print_", "call_")


def check(views: Sequence[View]) -> Iterator[Finding]:
    called = {
        rebinding.target for view in views for rebinding in view.usage.rebindings if view.release.calls(rebinding.name)
    }
    for view in views:
        for rebinding in view.usage.rebindings:
            if not rebinding.reachable or not _is_called_by_name(rebinding):
                continue
            if view.release.calls(rebinding.name) or view.release.holders(rebinding.target):
                continue
            severity = Severity.RED if rebinding.target in called else Severity.NOTE
            message = f"nothing in torch calls `{rebinding.short_target}`"
            yield view.finding(UNCALLED_TARGET, rebinding.span, message, severity=severity, of=rebinding)


def _is_called_by_name(rebinding: Rebinding) -> bool:
    if rebinding.original is None or rebinding.name.startswith(_DISPATCHED):
        return False
    return rebinding.original.form not in ("property", "cached-property")
