"""Does the patch work together with the other patches of the project, in either order?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Patch,
    Verdicts,
    failure_of,
    fault_of,
    read_codes,
    verdict_of,
)
from patchgate.inputs.patch import load_patch
from patchgate.runner.client import loading

FAMILY = "together"
CODES = read_codes("""
PG811 one patch undoes another
    With both applied, nothing refers any more to what the first one installed.
    Why: Users who install both have only one of them in effect.
    Fix: Call what you replace, or install only one of them.
PG812 the order of patches matters
    A workload's facts with both patches depend on which was applied first.
    Why: Users get one compiler or another by the order of imports, which is decided elsewhere and
    can change.
    Fix: Make them independent, or install them from one place in one order.
PG813 two patches do not work together
    Each works alone; with both applied, the patch or a compile fails.
    Why: A user who installs both has a broken compiler.
    Fix: Read the failure; pass on arguments that you do not know.
PG814 the patches work together
    Both are in place in either order, and the facts are the same.
    Why: Projects install many patches from one module.
    Fix: Nothing to do.
""")
# The answers with both patches: with this patch applied last, and with this patch applied first.
Orders = tuple[Answer, Answer]
# The most facts that are named.
_SHOWN = 4


@Check(believes=SIMULATED, wanted=lambda run, patch: bool(run.others))
def ask_together(context: CheckContext, at: Instance) -> Verdicts:
    return list(installed(context, at.case.torch, context.observed_cases(at.case.torch)[:1]))


def installed(context: CheckContext, torch: str, cases: Sequence[Case]) -> Verdicts:
    """Judge each other patch of the run together with this patch, in these cases of one release."""
    for path in context.run.others:
        other = load_patch(Path(path))
        orders = _both_orders(context, torch, "undone", SIMULATED, other)
        yield from judge_places(context.case(torch), context.patch, other, orders)
        for case in cases:
            workload = context.workload(case.workload)
            orders = _both_orders(context, torch, "observe", case.device, other, workload=workload)
            yield from judge_orders(case, context.patch, other, orders)


def _both_orders(
    context: CheckContext, torch: str, question: str, device: str, other: Patch, **more: Any
) -> Orders:
    ask, patch = partial(context.ask, torch, question, device, **more), context.patch
    return ask(patch=patch, after=[loading(other)]), ask(patch=other, after=[loading(patch)])


def judge_places(case: Case, patch: Patch, other: Patch, orders: Orders) -> Verdicts:
    """PG811 for changes of one patch that the other patch undoes, PG813 if either order fails."""
    failures = list(_failures(case, patch, other, orders))
    if failures:
        return failures
    place = patch.place
    say = partial(verdict_of, FAMILY, case=case, expected="both in place", where=place)
    undone = [
        say(
            "PG811",
            Kind.REGRESSED,
            fact=name,
            actual=f"{first.id}'s replacement is gone after {last.id} is applied",
            item="both",
        )
        for (last, first), answer in zip(((patch, other), (other, patch)), orders, strict=True)
        for name in answer["undone"]
    ]
    fact = f"next to {other.id}"
    return undone or [say("PG814", Kind.PASS, fact=fact, actual="as expected", item="places")]


def judge_orders(case: Case, patch: Patch, other: Patch, orders: Orders) -> Verdicts:
    """PG812 if a workload's facts depend on the order, PG813 if it fails in either order."""
    failures = list(_failures(case, patch, other, orders))
    if failures:
        return failures
    place, fact = patch.place, f"next to {other.id}"
    say = partial(verdict_of, FAMILY, case=case, fact=fact, where=place)
    last, first = (answer["facts"] for answer in orders)
    names = [name for name in sorted({*last, *first}) if last.get(name) != first.get(name)]
    differing = tuple(f"{name} {last.get(name)} or {first.get(name)}" for name in names[:_SHOWN])
    same = "the same in either order"
    if differing:
        return [say("PG812", Kind.REGRESSED, expected=same, actual=differing)]
    return [say("PG814", Kind.PASS, expected=same, actual="as expected")]


def _failures(case: Case, patch: Patch, other: Patch, orders: Orders) -> Verdicts:
    for order, answer in zip((f"after {other.id}", f"before {other.id}"), orders, strict=True):
        failure = failure_of(answer)
        fault = fault_of(None, failure)
        if failure and fault:
            say = partial(verdict_of, FAMILY, "PG813", fault.kind, case, order, item="applied")
            yield say("works as alone", failure.text, patch.place)
