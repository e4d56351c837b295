"""Graphs compiled in a few calls of one workload, unpatched and patched -> PG41x.

Decides which of them are too many. A further graph in the first call is no matter of this check:
it is a graph break, and the graph check has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Kind, Patch, Verdict
from patchgate.model.serialization import failure_of

Counts = Mapping[str, int]
FIRST, SIZE = "first call", "another size"


def judge_recompiles(
    torch: str, patch: Patch, subject: str, unpatched: Mapping[str, Any], patched: Mapping[str, Any]
) -> Iterator[Verdict]:
    """One verdict for each step in which more was compiled; PG410 when there is none."""
    before, after = failure_of(dict(unpatched)), failure_of(dict(patched))
    failure = before or after
    if failure:
        infra = before is not None or failure.cause is Cause.MACHINE
        code, kind = ("PG419", Kind.INFRA) if infra else ("PG413", Kind.REGRESSED)
        actual = f"{failure.cause.value}: {failure.signature}"
        yield _verdict(code, kind, torch, subject, "runs, as unpatched", actual, failure.where or _place(patch))
        return
    ways = patched["counts"]
    found = [told for way in ways for told in _more(unpatched["counts"][way], ways[way], way)]
    for code, step, expected, actual in found:
        yield _verdict(code, Kind.REGRESSED, torch, f"{subject} {step}", expected, actual, _place(patch))
    if not found:
        told = (
            f"{sum(counts['graphs'] for counts in ways['compiled'].values())} graphs in {len(ways['compiled'])} steps"
        )
        yield _verdict("PG410", Kind.PASS, torch, subject, "compiled no more often than unpatched", told, None)


def _more(unpatched: Mapping[str, Counts], patched: Mapping[str, Counts], way: str) -> Iterator[tuple[str, ...]]:
    """(code, step, expected, actual) of each step with more graphs, or with symbolic ones instead of static."""
    # What the patch compiles or splits by itself is compiled once more for another size.
    own = max(0, patched[FIRST]["graphs"] - unpatched[FIRST]["graphs"])
    for step, counts in patched.items():
        allowed = unpatched[step]["graphs"] + (own if step == SIZE else 0)
        if step != FIRST and counts["graphs"] > allowed:
            yield "PG411", f"{way}, {step}", f"at most {allowed} graphs compiled", f"{counts['graphs']} compiled"
        if counts["symbolic"] > unpatched[step]["symbolic"]:
            expected = f"{unpatched[step]['symbolic']} graphs with symbolic sizes"
            yield "PG412", f"{way}, {step}", expected, f"{counts['symbolic']} of {counts['graphs']}"


def _place(patch: Patch) -> str:
    return f"{shown(patch.path)}:1"


_verdict = partial(verdict_of, "recompile")
