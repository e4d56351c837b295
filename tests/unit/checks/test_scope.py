"""A compile after the scope of a patch has ended: PG219 where it is not one without the patch."""

from __future__ import annotations

import pytest

from patchgate.checks.scope import judge_outside
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.records import Case, Cause, FactValue, Failure, Observation

CASE = Case(torch="2.11.0", device="cpu", workload="stack", patch="mine")
PATCH = Patch(
    id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine", scope="patched")
)


def side(told: FactValue | Cause) -> Observation:
    """Facts, or the cause of a failure."""
    if isinstance(told, Cause):
        return Observation(
            case=CASE, failure=Failure(cause=told, stage="compile", signature="boom")
        )
    return Observation(case=CASE, facts={"loads": told})


@pytest.mark.parametrize(
    ("unpatched", "left", "code", "actual"),
    [
        ((2, 1), (2, 1), "PG211", "2 facts as without it"),
        ((2, 1), (2, 2), "PG219", "loads [2 1] -> [2 2]"),
        ((2, 1), Cause.RAISED, "PG219", "compiles 1 -> 0"),
        (Cause.RAISED, Cause.RAISED, "PG211", "1 facts as without it"),
        ((2, 1), Cause.MACHINE, "PG905", "machine: boom, during `compile`"),
        (Cause.MACHINE, (2, 1), "PG905", "machine: boom, during `compile`"),
    ],
)
def test_a_compile_after_the_scope_is_one_without_the_patch(unpatched, left, code, actual):
    verdict = judge_outside(PATCH, "patch.toml:4", side(unpatched), side(left))
    assert (verdict.code, verdict.actual) == (code, actual)
    assert (verdict.subject, verdict.case) == ("outside patched stack.cpu", CASE)
