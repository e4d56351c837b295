"""PG119: no call in torch goes to the replaced name. Red when other releases do call it, else a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.interpret.references import Rebinding

# Dispatched by name, by torch or by Python itself; no call site spells them out.
_DISPATCHED = ("__", "visit_", "codegen_", "_print_", "call_")


def check(views: Sequence[View]) -> Iterator[Remark]:
    called = {each.target for view in views for each in view.usage.rebindings if view.release.calls(each.name)}
    for view in views:
        for each in view.usage.rebindings:
            if each.reachable and _judged(each) and not view.release.calls(each.name):
                if view.release.holders(each.target):
                    continue
                yield Remark(
                    code="PG119",
                    version=view.version,
                    span=each.span,
                    message=f"nothing in torch calls `{'.'.join(each.target.split('.')[-2:])}`",
                    severity=Severity.RED if each.target in called else Severity.NOTE,
                )


def _judged(each: Rebinding) -> bool:
    if each.original is None or each.name.startswith(_DISPATCHED):
        return False
    return each.original.form not in ("property", "cached-property")
