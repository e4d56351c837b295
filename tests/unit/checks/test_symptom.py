"""Is the patch needed where it is gated out, and does it cure where it applies? PG203, PG204,
PG205, PG212.
"""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline

from patchgate.checks.symptom import judge_symptom
from patchgate.inputs.manifest import Claims, Patch, Symptom
from patchgate.model.policy import Kind
from patchgate.model.records import (
    Case,
    Cause,
    Command,
    FactValue,
    Failure,
    Observation,
    Unmeasured,
    Verdict,
)
from patchgate.model.versions import parse_range
from patchgate.report.next_commands import next_step

SYMPTOM = Symptom(workload="stack", device="h200", fact="loads.max", predicate="> 4")
MISSING = Unmeasured(reason="no counter")
AGAIN = Command(name="gate", arguments=("patch.py",))
CLAIMS = Claims(title="Mine", applies_to="==2.11.0", fixed_in="2.12")


def side(
    value: FactValue | Cause | None, patch: str | None = None, torch: str = "2.11.0"
) -> Observation:
    """A side that tells `loads.max`, tells nothing (None), or failed (a cause)."""
    case = Case(torch=torch, device="h200", workload="stack", patch=patch)
    if isinstance(value, Cause):
        return Observation(
            case=case, failure=Failure(cause=value, stage="compile", signature="boom")
        )
    return Observation(
        case=case, facts={} if value is None else {"loads.max": value, "loads": (2, 1)}
    )


def judge(
    before: FactValue | Cause | None,
    after: FactValue | Cause | None,
    torch: str = "2.11.0",
    claims: Claims = CLAIMS,
    symptom: Symptom = SYMPTOM,
) -> Verdict:
    patch = Patch(id="mine", path="patch.py", source="", claims=claims)
    sides = side(before, torch=torch), side(after, "mine", torch)
    return judge_symptom(patch, symptom, *sides, "patch.toml:3", AGAIN)


@pytest.mark.parametrize(
    ("torch", "before", "after", "code", "kind"),
    [
        ("2.11.0", 6, 4, "PG211", Kind.PASS),
        ("2.11.0", 6, 6, "PG205", Kind.REGRESSED),
        ("2.11.0", 4, 4, "PG204", Kind.ABSORBED),
        ("2.11.0", 4, 6, "PG204", Kind.ABSORBED),
        ("2.12.1", 6, 6, "PG203", Kind.REGRESSED),
        ("2.12.1", 4, 4, "PG211", Kind.PASS),
        ("2.11.0", MISSING, 4, "PG212", Kind.UNMEASURED),
        ("2.11.0", None, 4, "PG212", Kind.UNMEASURED),
        ("2.11.0", Cause.RAISED, 4, "PG212", Kind.UNMEASURED),
        ("2.11.0", 6, MISSING, "PG212", Kind.UNMEASURED),
        ("2.11.0", 6, None, "PG205", Kind.REGRESSED),
        ("2.11.0", 6, Cause.RAISED, "PG205", Kind.REGRESSED),
        ("2.11.0", 6, Cause.MACHINE, "PG905", Kind.INFRA),
    ],
)
def test_a_symptom_is_measured_never_believed(torch, before, after, code, kind):
    verdict = judge(before, after, torch)
    assert (verdict.code, verdict.kind) == (code, kind)


@pytest.mark.parametrize(
    ("before", "after", "actual"),
    [
        (6, 4, "loads.max 6 unpatched, 4 patched, loads [2 1] with and without the patch"),
        (MISSING, 4, "no fact loads.max"),
        (Cause.RAISED, 4, "boom, during `compile`"),
        (6, None, "no fact loads.max with the patch"),
        (6, MISSING, "no counter"),
    ],
)
def test_what_was_measured_is_shown(before, after, actual):
    assert judge(before, after).actual == actual


def test_a_gate_that_is_too_narrow_is_held_against_the_claim(folder):
    verdict = judge(6, 6, "2.12.1")
    told = f"{verdict.where}\n{verdict.subject}\n{verdict.expected}\n{verdict.actual}\n"
    told += next_step(verdict.advice, verdict.commands)
    assert_expected_inline(
        told,
        """\
patch.toml:3
symptom stack.h200 loads.max > 4
absent where the patch does not apply; claimed: applies_to = "==2.11.0", fixed_in = "2.12"
loads.max 6, loads [2 1] with and without the patch
the patch is needed on 2.12.1: let applies_to and the version check cover it, or correct the claim; \
then: patchgate gate patch.py""",
    )


def test_the_record_says_on_which_other_releases_the_patch_is_needed():
    spans = {"2.10.0..2.13.0": 6, "2.14.1": 2, "2.15.0": 3}
    recorded = {parse_range(span): value for span, value in spans.items()}
    patch = Patch(id="mine", path="patch.py", source="", claims=CLAIMS)
    sides = side(6, torch="2.12.1"), side(6, "mine", "2.12.1")
    verdict = judge_symptom(patch, SYMPTOM, *sides, "patch.toml:3", AGAIN, recorded)
    assert verdict.actual.endswith(
        "recorded without the patch: defect present on 2.10.0 to 2.13.0 (patch needed),"
        " absent on 2.14.1 to 2.15.0; 2.14.0: not recorded"
    )
    assert "needed on 2.10.0 to 2.13.0" in verdict.advice
    nowhere = judge_symptom(
        patch, SYMPTOM, *sides, "patch.toml:3", AGAIN, {parse_range("2.10.0..2.15.0"): 2}
    )
    assert nowhere.actual.endswith("present on no release, absent on 2.10.0 to 2.15.0")
    assert "needed on 2.12.1" in nowhere.advice, (
        "what was measured counts, where the record says otherwise"
    )


COMPILES = Symptom(workload="stack", device="h200", fact="compiles", predicate="== 0")


@pytest.mark.parametrize(
    ("torch", "before", "after", "code"),
    [
        ("2.11.0", Cause.RAISED, 6, "PG211"),
        ("2.11.0", Cause.RAISED, Cause.RAISED, "PG205"),
        ("2.11.0", 6, 6, "PG204"),
        ("2.12.1", Cause.RAISED, Cause.RAISED, "PG203"),
        ("2.12.1", 6, 6, "PG211"),
        ("2.11.0", Cause.MACHINE, 6, "PG212"),
        ("2.11.0", Cause.HUNG, 6, "PG212"),
    ],
)
def test_a_symptom_may_be_that_it_does_not_compile(torch, before, after, code):
    assert judge(before, after, torch, symptom=COMPILES).code == code


def test_a_patch_without_a_gate_claims_every_release():
    assert judge(6, 6, "2.12.1", Claims(title="Mine")).code == "PG205"
