"""Does compiling cost more than the budget allows? Counted in Python calls, on a simulated GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Fault,
    Instance,
    Kind,
    Patch,
    Verdict,
    Verdicts,
    code_of_others,
    failure_of,
    failure_text,
    fault_of,
    read_codes,
    verdict_of,
)
from patchgate.model.budgets import budget_for, judge_change, show_budget
from patchgate.model.records import Budget

FAMILY = "compile"
# The limit that holds if the manifest has no budget. A sound pass of patterns cost 4.8 %, and a
# sound pass that goes through all nodes cost 9.2 %.
_BUDGET = Budget(low=-0.1, high=0.1)
# Up to this many additional calls are a note. They take some milliseconds, and are a large share of
# the calls in a small graph.
_FEW = 5_000
# The advice about a change, with the budget that would admit it.
_OVER = 'Reduce the calls, or accept them in the manifest: [budgets] compile_calls = "{}".'
_UNDER = 'Record it in the manifest: [budgets] compile_calls = "{}".'
CODES = (
    *read_codes(f"""
PG601 compiling costs more than its budget
    With the patch, one compile makes more Python calls than the budget `compile_calls` allows:
    {_BUDGET.high:.0%} where no manifest gives it; there up to {_FEW:,} more calls are a note. Or it
    works in threads or processes of its own, whose calls are not counted.
    Why: Every process that compiles pays this at start-up. Calls are counted, because seconds vary
    from run to run by more than such a patch adds. Work in C++ is not counted.
    Fix: {_OVER.format("0 % .. 2 %")}
PG602 compiling costs less
    With the patch, one compile makes fewer Python calls than the budget `compile_calls` expects. It
    is a note where no manifest gives a budget, and red where one does: its claim is wrong.
    Why: The project does not notice a later loss until its budget includes the gain.
    Fix: {_UNDER.format("-5 % .. 0 %")}
PG603 compile work within its budget
    The number of Python calls of one compile stays within the budget `compile_calls`.
    Why: The patch adds no work to a compile.
    Fix: Nothing to do.
PG608 compile work could not be counted
    A side of this comparison did not compile, or no call was counted.
    Why: Work that was not counted is not zero.
    Fix: Read the failure. The kernels check says whether the patch or torch caused it.
"""),
    code_of_others(code="PG609"),
)
verdict = partial(verdict_of, FAMILY)
METRIC = "compile_calls"
# The error of the probe when a patch switches the counting off.
COUNTED = "calls are being counted"
# The most modules that are named for a change.
_MODULES = 2


@Check(
    axes=("torch", "device", "workload"),
    workloads="compile_cost",
    devices=lambda run: [SIMULATED],
    unchanged="none",
)
def ask_compile(context: CheckContext, at: Instance) -> Verdicts:
    torch, workload, patch = at.case.torch, context.workload(at.case.workload), context.patch
    # The path of torch can change the count by as much as the budget, so an answer is only reused
    # for the same path.
    place = context.run.rows[torch]
    unpatched, patched = (
        context.ask_once(torch, "calls", SIMULATED, workload=workload, patch=side, place=place)
        for side in (None, patch)
    )
    return [judge_calls(at.case, patch, unpatched, patched)]


def judge_calls(case: Case, patch: Patch, unpatched: Answer, patched: Answer) -> Verdict:
    """One verdict for one workload on one device.

    Calls repeat exactly, except a few in a million, so the change is a number and not an interval.
    """
    failures = failure_of(unpatched), failure_of(patched)
    budget = patch.claims.budgets.get(METRIC, _BUDGET)
    expected = f'{METRIC} = "{show_budget(budget)}"'
    where = patch.place_of("budgets", METRIC)
    fault = fault_of(*failures)
    if fault:
        code, kind = "PG609", fault.kind
        if failures[1] and COUNTED in failures[1].signature:
            code, kind = "PG601", Kind.REGRESSED
        elif fault is Fault.PATCH:  # the kernels check holds it against the patch
            code, kind = "PG608", Kind.UNMEASURED
        return verdict(code, kind, case, "", expected, failure_text(*failures), where)
    before, after = unpatched["calls"], patched["calls"]
    old, new = sum(before.values()), sum(after.values())
    if not old:
        return verdict("PG608", Kind.UNMEASURED, case, "", expected, "no call was counted")
    change = new / old - 1
    # If torch itself uses threads, a patch is not blamed for its own threads.
    hidden = "" if unpatched["missing"] else patched["missing"]
    stated = METRIC in patch.claims.budgets
    kind = Kind.OVER if hidden else judge_change(budget, change, change, stated=stated)
    # Only users who enter the patch's scope pay for the additional calls.
    is_noted = new - old <= _FEW or bool(patch.claims.scope)
    if kind is Kind.OVER and not hidden and not stated and is_noted:
        kind = Kind.WARNING
    moved = f"{old:,} -> {new:,} Python calls ({change:+.3%})"
    actual = tuple(filter(None, (moved, hidden, _largest_changes(before, after))))
    say = partial(verdict, kind=kind, case=case, fact="", expected=expected, actual=actual)
    share = abs(change)
    if hidden:
        return say("PG601", where=where, share=share)
    if kind is Kind.PASS:
        return say("PG603", share=share)
    code, advice = ("PG601", _OVER) if change > 0 else ("PG602", _UNDER)
    return say(code, where=where, share=share, advice=advice.format(budget_for(change, change)))


def _largest_changes(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """The modules that account for most of the change."""
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
    largest = sorted(changes.items(), key=lambda item: (-abs(item[1]), item[0]))[:_MODULES]
    return ", ".join(f"{name} {change:+,}" for name, change in largest if change)
