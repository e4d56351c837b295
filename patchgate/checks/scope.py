"""Does a patch that claims a scope leave torch unchanged outside of it?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Case,
    Check,
    CheckContext,
    Fault,
    Instance,
    Kind,
    Observation,
    Patch,
    Verdict,
    Verdicts,
    fault_of,
    read_codes,
    verdict_of,
)
from patchgate.model.facts import changed_facts, facts_with_compiles

FAMILY = "gate"
CODES = read_codes("""
PG219 changes torch outside its scope
    Importing the patch changed torch, or the patch left a change behind when its `scope` ended,
    also by an exception in its block, with a block inside another or over a user's settings: a
    name, a setting, or a workload whose facts differ afterwards. Or a block inside another ended
    the outer one too.
    Why: Users who never asked for the patch compile with a changed compiler, in the same process.
    Fix: Replace on entry and restore on exit, also after an exception (`mock.patch.object`).
PG229 torch compiles nothing within the scope
    The scope enters a `TorchDispatchMode`, and torch compiles nothing while one is active: compiled
    models run in eager mode there, whose numbers are judged. Compiled code, costs and caches are
    not.
    Why: Users have the speed of eager mode within the block; and what is called there first is not
    compiled after it either.
    Fix: Say so where the block is described. A mode need not see what compiled code computes if its
    `ignore_compile_internals` returns True.
""")
verdict = partial(verdict_of, FAMILY, item="outside")


@Check(believes=SIMULATED, wanted=lambda run, patch: bool(patch.claims.scope))
def ask_scope(context: CheckContext, at: Instance) -> Verdicts:
    yield from outside(context, context.observed_cases(at.case.torch))
    mode = context.uncompiled_within(at.case)
    if mode:
        actual, patch = f"within {mode} torch runs everything in eager mode", context.patch
        scope, where = str(patch.claims.scope), patch.place_of("scope")
        yield verdict("PG229", Kind.WARNING, at.case, scope, "compiled models", actual, where)


def outside(context: CheckContext, cases: Sequence[Case]) -> list[Verdict]:
    """Compile each case after the scope was entered and left, and compare its facts with the facts
    without the patch.
    """
    where = context.patch.place_of("scope")
    return [
        judge_outside(
            context.patch,
            where,
            context.observe_unpatched(case),
            context.observe_otherwise(case, left=True),
        )
        for case in dict.fromkeys(cases)
    ]


def judge_outside(patch: Patch, where: str, unpatched: Observation, left: Observation) -> Verdict:
    """PG219 if a workload that is compiled after the scope has ended differs from torch without the
    patch.
    """
    case, fact = left.case, f"{patch.claims.scope} {left.case.name}"
    expected = "the facts of torch without the patch"
    if fault_of(unpatched.failure, left.failure) is Fault.MACHINE:
        failure = unpatched.failure or left.failure
        assert failure is not None
        return verdict("PG905", Kind.INFRA, case, fact, expected, failure.text)
    before, after = facts_with_compiles(unpatched), facts_with_compiles(left)
    changes = changed_facts(before, after)
    if changes:
        return verdict("PG219", Kind.REGRESSED, case, fact, expected, changes, where)
    return verdict("PG211", Kind.PASS, case, fact, expected, f"{len(after)} facts as without it")
