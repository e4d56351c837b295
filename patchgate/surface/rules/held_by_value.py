"""PG118: who still holds the original after the rebinding. Quiet for methods, and for holders rebound too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.surface.findings import Remark, View
from patchgate.surface.lookup import module_of
from patchgate.surface.usage import Live

_SHOWN = 4


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view in views:
        rebound = {each.target for each in view.usage.rebindings}
        for each in view.usage.rebindings:
            if each.live is not Live.LIVE or each.on_class or each.origin is None or each.target != each.origin:
                continue
            holders = [
                holder
                for holder in view.release.holders(each.target)
                if holder not in rebound and module_of(view.release, holder) != each.target.rpartition(".")[0]
            ]
            if holders:
                more = f" and {len(holders) - _SHOWN} more" if len(holders) > _SHOWN else ""
                shown = ", ".join(f"`{holder}`" for holder in holders[:_SHOWN])
                yield Remark(
                    code="PG118",
                    version=view.version,
                    spot=each.spot,
                    message=f"the original stays in {shown}{more}",
                    fix="assign the replacement there too",
                    detail="\n".join(holders),
                )
