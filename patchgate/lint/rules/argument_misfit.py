"""PG115: the patch calls torch with arguments that the callee does not take. Quiet for unpacked arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.index.signatures import misfit


def check(views: Sequence[View]) -> Iterator[Remark]:
    for view in views:
        for call in view.usage.calls:
            if not call.reachable:
                continue
            parameters = call.function.parameters[1:] if call.bound else call.function.parameters
            problem = misfit(parameters, call.positional, call.keywords, starred=call.starred)
            if problem is not None:
                name = ".".join(call.dotted.split(".")[-2:])
                yield Remark(code="PG115", version=view.version, span=call.span, message=f"`{name}` {problem}")
