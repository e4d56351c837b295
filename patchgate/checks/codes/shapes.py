"""PG42x: what torch does as sizes change, call after call.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG421",
        title="compiles more often as sizes change",
        what="Called with the same script of sizes, the patched workload is compiled more often than the unpatched.",
        why="Each compile stops a server for seconds, at a size that no test had.",
        fix="Read the reason: it is the guard that failed. Decide by what holds for every size, or with"
        " `guard_or_false` and its kin, which add no guard.",
    ),
    Code(
        code="PG422",
        title="breaks the graph as sizes change",
        what="Called with the same script of sizes, the patched workload has more graph breaks than the unpatched.",
        why="Nothing is fused across a break, and each piece has guards and launches of its own.",
        fix="Read the reason and the user's line; keep out of Dynamo's way, or register what you call as an operator.",
    ),
    Code(
        code="PG423",
        title="gives up compiling as sizes change",
        what="Called with the same script of sizes, the patched workload reaches the recompile limit, or runs eagerly"
        " where the unpatched one runs compiled code.",
        why="From then on the user has no compiler, and nothing says so but a log line.",
        fix="Find what makes each size a case of its own: a size that becomes a constant, a frame that is skipped.",
    ),
)
