"""PG115: the patch calls torch with arguments that the callee does not take. Quiet for unpacked arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, View
from patchgate.lint.index.signatures import misfit
from patchgate.model.records import Code

MISFIT = Code(
    code="PG115",
    title="call does not fit",
    what="The patch calls a function of torch with arguments that it does not take in these releases.",
    why="The call raises TypeError when it runs.",
    fix="Pass what these releases take, or narrow the version gate.",
)


def check(views: Sequence[View]) -> Iterator[Finding]:
    for view in views:
        for call in view.usage.calls:
            parameters = call.function.parameters[1:] if call.bound else call.function.parameters
            problem = misfit(parameters, call.positional, call.keywords, starred=call.starred)
            if call.reachable and problem is not None:
                name = ".".join(call.dotted.split(".")[-2:])
                yield view.finding(MISFIT, call.span, f"`{name}` {problem}", of=call)
