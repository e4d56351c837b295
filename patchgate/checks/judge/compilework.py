"""Python calls of one compile, unpatched and patched -> PG60x, with the modules whose calls moved most.

Decides by the budget `compile_calls`. Calls repeat exactly, but for a few in a
million, so the change is taken as it is and not as an interval. CPU time and
instructions, where they were taken, are told and never judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from patchgate.checks.codes import verdict_of
from patchgate.model.budgets import budget_of, judge_change, show_budget
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Failure, Kind, Patch, Verdict
from patchgate.model.serialization import Answer, failure_of
from patchgate.model.statistics import CONFIDENCE, Round, ratio_interval

METRIC = "compile_calls"
_CODES = {Kind.OVER: "PG601", Kind.UNDER: "PG602", Kind.PASS: "PG603", Kind.UNMEASURED: "PG608", Kind.INFRA: "PG609"}
_MODULES = 3


_verdict = partial(verdict_of, "compile")


def judge_calls(
    torch: str, subject: str, patch: Patch, unpatched: Answer, patched: Answer, costs: Answer | None = None
) -> Verdict:
    """One verdict for one workload on one device."""
    failures = failure_of(unpatched), failure_of(patched)
    budget = budget_of(patch.claims, METRIC)
    expected = f'Python calls of one compile within {METRIC} = "{show_budget(budget)}"'
    if any(failures):
        kind = _fault(*failures)
        return _verdict(_CODES[kind], kind, torch, subject, expected, _failure(*failures))
    before, after = unpatched["calls"], patched["calls"]
    old, new = sum(before.values()), sum(after.values())
    if not old:
        return _verdict("PG608", Kind.UNMEASURED, torch, subject, expected, "no call was counted")
    change = new / old - 1
    kind = judge_change(budget, change, change)
    told = [f"{change:+.3%}: {old:,} unpatched, {new:,} patched", _moved(before, after), *_beside(costs)]
    return _verdict(_CODES[kind], kind, torch, subject, expected, "; ".join(filter(None, told)), _where(kind, patch))


def _beside(costs: Answer | None) -> Iterator[str]:
    """What else a compile costs, C++ included."""
    if costs is None:
        return
    failure = failure_of(costs)
    if failure:
        yield f"CPU time not taken: {failure.cause.value}: {failure.signature}"
        return
    pairs = [Round(unpatched=(before,), patched=(after,)) for before, after in costs["seconds"]]
    yield f"CPU time {ratio_interval(pairs, CONFIDENCE)} in {len(pairs)} pairs"
    counted = costs["instructions"]
    if isinstance(counted, dict):
        yield f"instructions not counted here: {counted['unmeasured']}"
    else:
        before, after = (sum(side) for side in zip(*counted, strict=True))
        yield f"instructions {after / before - 1:+.3%}"


def _moved(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """The modules that account for most of the change."""
    grown = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
    most = sorted(grown.items(), key=lambda item: (-abs(item[1]), item[0]))[:_MODULES]
    return ", ".join(f"{name} {change:+,}" for name, change in most if change)


def _fault(unpatched: Failure | None, patched: Failure | None) -> Kind:
    machine = unpatched is not None or (patched is not None and patched.cause is Cause.MACHINE)
    return Kind.INFRA if machine else Kind.UNMEASURED


def _failure(unpatched: Failure | None, patched: Failure | None) -> str:
    side, failure = ("unpatched", unpatched) if unpatched else ("patched", patched)
    assert failure is not None
    return f"{side}: {failure.cause.value}: {failure.signature}"


def _where(kind: Kind, patch: Patch) -> str | None:
    return None if kind is Kind.PASS else shown(patch.manifest or patch.path)
