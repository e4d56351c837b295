"""Does the patch give the same facts in a process that compiled something before it was
imported?
"""

from __future__ import annotations

from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Check,
    CheckContext,
    Instance,
    Kind,
    Observation,
    Patch,
    Verdict,
    Verdicts,
    held_against,
    read_codes,
    verdict_of,
)
from patchgate.model.facts import changed_facts, facts_with_compiles

FAMILY = "reach"
CODES = read_codes("""
PG821 no full effect after an earlier compile
    The workload was compiled once without the patch, then the patch was run, and the workload
    compiled again: its facts differ from those of a process that runs the patch first.
    Why: Users who import the patch after their first compile get a compiler that differs from the
    judged one, or
    the unpatched one: it keeps tables, patterns and functions.
    Fix: Also replace what the compiler has kept: clear the cached function that copied a table
    (`torch._inductor.decomposition.fast_random_decomps.cache_clear()`), or patch where it is looked
    up.
""")
verdict = partial(verdict_of, FAMILY, item="late")
_EXPECTED = "the facts of a process that runs the patch first"


@Check(believes=SIMULATED, seconds=2, wanted=lambda run, patch: not patch.claims.scope)
def ask_late(context: CheckContext, at: Instance) -> Verdicts:
    """Ask only about the first workload whose facts the patch changes."""
    for case in context.observed_cases(at.case.torch):
        unpatched, patched = context.observations(case)
        if not (unpatched.failure or patched.failure) and changed_facts(
            unpatched.facts, patched.facts
        ):
            late = context.observe_otherwise(case, compiles=2, late=True)
            return [judge_late(context.patch, unpatched, patched, late)]
    actual = "the patch changes no fact of any workload"
    return [verdict("PG806", Kind.PASS, at.case, "", _EXPECTED, actual)]


def judge_late(
    patch: Patch, unpatched: Observation, patched: Observation, late: Observation
) -> Verdict:
    """PG821 if the facts of the late import differ from those with the patch imported first."""
    case, place = late.case, patch.place
    say = partial(verdict, case=case, fact=case.name, expected=_EXPECTED)
    if late.failure:
        code, kind, where = held_against(late.failure, "PG821", place)
        return say(code, kind, actual=late.failure.text, where=where)
    first, last, without = (facts_with_compiles(side) for side in (patched, late, unpatched))
    changes = changed_facts(first, last)
    if not changes:
        actual = f"{len(last)} facts, the same as with the patch run first"
        return say("PG806", Kind.PASS, actual=actual)
    if not changed_facts(without, last):
        changes = "the facts of torch without the patch"
    return say("PG821", Kind.REGRESSED, actual=changes, where=place)
