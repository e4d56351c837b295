"""PG115: the patch calls torch with arguments that the callee does not take. Quiet for unpacked arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.index.signatures import misfit
from patchgate.lint.interpret.references import Live


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view in views:
        for call in view.usage.callings:
            if call.live is not Live.LIVE:
                continue
            parameters = call.function.parameters[1:] if call.bound else call.function.parameters
            problem = misfit(parameters, call.positional, call.keywords, starred=call.starred)
            if problem is not None:
                name = ".".join(call.dotted.split(".")[-2:])
                yield Remark(code="PG115", version=view.version, spot=call.spot, message=f"`{name}` {problem}")
