"""Facts of a patch that comes after a first compile: PG821."""

from __future__ import annotations

import pytest

from patchgate.checks.late import judge_late
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Facts, Failure, Observation, Verdict

CASE = Case(torch="2.11.0", device="h200", workload="pointwise", patch="mine")
PATCH = Patch(id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine"))
UNPATCHED: Facts = {"loads": 3, "kernels": 1}
PATCHED: Facts = {"loads": 2, "kernels": 1}


def observed(facts: Facts, failure: Failure | None = None) -> Observation:
    return Observation(case=CASE, facts=facts, failure=failure)


def judged(late: Observation) -> Verdict:
    return judge_late(PATCH, observed(UNPATCHED), observed(PATCHED), late)


def test_the_same_facts_are_green():
    verdict = judged(observed(PATCHED))
    assert (verdict.code, verdict.kind) == ("PG806", Kind.PASS)


@pytest.mark.parametrize(
    ("facts", "actual"),
    [
        (UNPATCHED, "the facts of torch without the patch"),
        ({"loads": 5, "kernels": 1}, "loads 2 -> 5"),
    ],
)
def test_other_facts_are_red(facts, actual):
    verdict = judged(observed(facts))
    assert (verdict.code, verdict.kind, verdict.actual) == ("PG821", Kind.REGRESSED, actual)


@pytest.mark.parametrize(
    ("cause", "code", "kind"),
    [(Cause.RAISED, "PG821", Kind.REGRESSED), (Cause.MACHINE, "PG905", Kind.INFRA)],
)
def test_a_failure_is_the_patchs_unless_the_machine_failed(cause, code, kind):
    failure = Failure(cause=cause, stage="compile", signature="boom")
    verdict = judged(observed({}, failure))
    assert (verdict.code, verdict.kind, verdict.actual) == (code, kind, failure.text)
