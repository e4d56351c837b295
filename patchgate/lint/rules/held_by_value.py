"""PG118: who still holds the original after the rebinding. Quiet for methods, and for holders rebound too.

Red where a module has it by name; a note for registries and tables, which the patch may fill anew itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.interpret.references import Rebinding
from patchgate.lint.interpret.torch_names import module_of

_SHOWN = 4


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view in views:
        rebound = {each.target for each in view.usage.rebindings}
        for each in view.usage.rebindings:
            if not each.reachable or each.on_class or each.origin is None:
                continue
            yield from _registered(view, each)
            holders = [holder for holder in _holders(view, each) if holder not in rebound]
            if holders:
                more = f" and {len(holders) - _SHOWN} more" if len(holders) > _SHOWN else ""
                shown = ", ".join(f"`{holder}`" for holder in holders[:_SHOWN])
                yield Remark(
                    code="PG118",
                    version=view.version,
                    span=each.span,
                    message=f"the original stays in {shown}{more}",
                    fix="assign the replacement there too",
                    detail="\n".join(holders),
                )


def _registered(view: View, each: Rebinding) -> Iterator[Remark]:
    found = view.release.registries(each.origin or each.target)
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        shown = ", ".join(f"`{keeper}`" for keeper in found[:_SHOWN])
        yield Remark(
            code="PG118",
            version=view.version,
            span=each.span,
            message=f"the original stays registered by {shown}{more}",
            severity=Severity.NOTE,
            fix="register the replacement too",
            detail="\n".join(found),
        )


def _holders(view: View, each: Rebinding) -> list[str]:
    """Who keeps the original: for its home module, every importer; for a re-export nobody calls, its home."""
    home = each.target.rpartition(".")[0]
    if each.target == each.origin:
        return [name for name in view.release.holders(each.target) if module_of(view.release, name) != home]
    called_here = any(site.module == home for site in view.release.calls(each.name))
    if called_here or each.original is None or each.origin is None:
        return []
    return [each.origin]
