"""Python calls of one compile, unpatched and patched -> PG60x, with the modules whose calls moved most.

Decides by the budget `compile_calls`. Calls repeat exactly, but for a few in a
million, so the change is taken as it is and not as an interval.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgate.budgets import budget_of, judge_change, show_budget
from patchgate.codes import verdict_of
from patchgate.model import Cause, Failure, Kind, Patch, Verdict
from patchgate.project import shown
from patchgate.wire import Answer, failure_of

METRIC = "compile_calls"
_CODES = {Kind.OVER: "PG601", Kind.UNDER: "PG602", Kind.PASS: "PG603", Kind.UNMEASURED: "PG608", Kind.INFRA: "PG609"}
_MODULES = 3


def judge_calls(torch: str, subject: str, patch: Patch, unpatched: Answer, patched: Answer) -> Verdict:
    """One verdict for one workload on one device."""
    failures = failure_of(unpatched), failure_of(patched)
    budget = budget_of(patch.claims, METRIC)
    expected = f'Python calls of one compile within {METRIC} = "{show_budget(budget)}"'
    if any(failures):
        return _verdict(_fault(*failures), torch, subject, expected, _failure(*failures), None)
    before, after = unpatched["calls"], patched["calls"]
    old, new = sum(before.values()), sum(after.values())
    if not old:
        return _verdict(Kind.UNMEASURED, torch, subject, expected, "no call was counted", None)
    change = new / old - 1
    kind = judge_change(budget, change, change)
    actual = f"{change:+.3%}: {old:,} unpatched, {new:,} patched"
    moved = _moved(before, after)
    return _verdict(kind, torch, subject, expected, f"{actual}; {moved}" if moved else actual, _where(kind, patch))


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


def _verdict(kind: Kind, torch: str, subject: str, expected: str, actual: str, where: str | None) -> Verdict:
    return verdict_of("compile", _CODES[kind], kind, torch, subject, expected, actual, where)
