"""Modelled times of one case, unpatched and patched -> PG62x.

Decides by the budget `modelled_time`. The model is exact, so the change is taken as it is, like a fact's.
"""

from __future__ import annotations

from patchgate.checks.codes import verdict_of
from patchgate.model.budgets import budget_of, judge_change, show_budget
from patchgate.model.records import Kind, Observation, Patch, Verdict
from patchgate.runner.roofline import METRIC

_CODES = {Kind.OVER: "PG621", Kind.UNDER: "PG622", Kind.PASS: "PG623"}


def judge_modelled(patch: Patch, unpatched: Observation, patched: Observation, where: str) -> list[Verdict]:
    """One verdict; none where a side has no modelled time, because it did not compile (the kernels check tells)."""
    before, after = unpatched.metrics.get(METRIC), patched.metrics.get(METRIC)
    if not before or after is None:
        return []
    budget = budget_of(patch.claims, METRIC)
    # Sums of the same figures in another order differ in the last bits.
    change = round(after / before - 1, 9)
    kind = judge_change(budget, change, change)
    subject = f"{patched.case.workload}.{patched.case.device} modelled time"
    expected = f"modelled, not measured: a change within {show_budget(budget)}"
    actual = f"{change:+.2%}: modelled {before:.1f} us unpatched, {after:.1f} us patched"
    place = None if kind is Kind.PASS else where
    return [verdict_of("modelled", _CODES[kind], kind, patched.case.torch, subject, expected, actual, place)]
