"""Python calls of one compile -> PG601 to PG609."""

from __future__ import annotations

import pytest

from patchgate.checks.compile_cost import COUNTED, judge_calls
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Budget, Case, Cause, Verdict
from patchgate.model.serialization import Answer

CASE = Case(torch="2.11.0", device="h200", workload="chain", patch="mine")
CALLS = {"torch.fx.node": 60_000, "torch._inductor.ir": 40_000}


def answer(moved: int = 0, cause: Cause | None = None, missing: str = "") -> Answer:
    if cause:
        return {
            "failure": {
                "cause": cause.value,
                "stage": "compile",
                "signature": "boom",
                "where": None,
            }
        }
    return {"calls": CALLS | {"torch.fx.node": CALLS["torch.fx.node"] + moved}, "missing": missing}


def judge(
    patched: Answer,
    unpatched: Answer | None = None,
    budget: Budget | None = None,
    scope: str | None = None,
) -> Verdict:
    budgets = {"compile_calls": budget} if budget else {}
    claims = Claims(title="Mine", budgets=budgets, scope=scope)
    patch = Patch(id="mine", path="patch.py", source="", claims=claims, manifest="patch.toml")
    return judge_calls(CASE, patch, unpatched or answer(), patched)


@pytest.mark.parametrize(
    ("moved", "code", "colour"),
    [
        (0, "PG603", Colour.GREEN),
        (9_999, "PG603", Colour.GREEN),
        (10_001, "PG601", Colour.RED),
        (-9_999, "PG603", Colour.GREEN),
        (-19_000, "PG602", Colour.GREY),
    ],
)
def test_without_a_budget_a_loss_beyond_the_limit_is_red_and_a_gain_a_note(moved, code, colour):
    verdict = judge(answer(moved))
    assert (verdict.code, verdict.colour) == (code, colour)


@pytest.mark.parametrize(
    ("moved", "colour"), [(500, Colour.GREY), (5_000, Colour.GREY), (5_001, Colour.RED)]
)
def test_few_calls_are_a_note_however_large_their_share(moved, colour):
    small = {"calls": {"torch.fx.node": 1_000}, "missing": ""}
    verdict = judge({"calls": {"torch.fx.node": 1_000 + moved}, "missing": ""}, small)
    assert (verdict.code, verdict.colour) == ("PG601", colour)


@pytest.mark.parametrize(
    ("budget", "colour"), [(None, Colour.GREY), (Budget(low=0.0, high=0.1), Colour.RED)]
)
def test_calls_in_a_scope_are_a_note_without_a_budget(budget, colour):
    verdict = judge(answer(20_000), budget=budget, scope="block")
    assert (verdict.code, verdict.colour) == ("PG601", colour)


@pytest.mark.parametrize(("moved", "code"), [(0, "PG602"), (1_500, "PG603"), (2_500, "PG601")])
def test_a_budget_of_the_manifest_is_a_claim_in_both_directions(moved, code):
    verdict = judge(answer(moved), budget=Budget(low=0.01, high=0.02))
    assert (verdict.code, verdict.colour is Colour.RED) == (code, code != "PG603")


def test_what_grew_is_shown_in_figures_and_by_module():
    verdict = judge({"calls": CALLS | {"torch.fx.node": 60_500, "sympy": 20}, "missing": ""})
    assert (
        verdict.actual == "100,000 -> 100,520 Python calls (+0.520%); torch.fx.node +500, sympy +20"
    )
    assert verdict.expected == 'compile_calls = "10 %"'
    assert (judge(answer(19_000)).where, verdict.where) == ("patch.toml", None)


@pytest.mark.parametrize(
    ("moved", "admits"), [(14_500, '"0 % .. 15 %"'), (-10_600, '"-11 % .. 0 %"')]
)
def test_the_budget_that_is_advised_admits_what_was_counted(moved: int, admits: str) -> None:
    assert judge(answer(moved)).advice.endswith(f"[budgets] compile_calls = {admits}.")


@pytest.mark.parametrize(
    ("unpatched", "code"), [("", "PG601"), ("other threads computed", "PG603")]
)
def test_work_in_threads_of_the_patch_is_over_any_budget(unpatched: str, code: str) -> None:
    verdict = judge(answer(missing="other threads computed for 0.5 s"), answer(missing=unpatched))
    assert (verdict.code, "0.5 s" in verdict.actual) == (code, code == "PG601")


def test_whoever_switches_the_counting_off_is_over_any_budget() -> None:
    failure = {
        "cause": "raised",
        "stage": "compile",
        "signature": f"RuntimeError: {COUNTED}",
        "where": None,
    }
    assert judge({"failure": failure}).code == "PG601"


def test_no_call_at_all_is_not_a_count():
    verdict = judge({"calls": {}, "missing": ""}, {"calls": {}, "missing": ""})
    assert (verdict.code, verdict.colour) == ("PG608", Colour.GREY)


@pytest.mark.parametrize(
    ("unpatched", "patched", "code", "kind"),
    [
        (None, Cause.RAISED, "PG608", Kind.UNMEASURED),
        (None, Cause.HUNG, "PG608", Kind.UNMEASURED),
        (None, Cause.MACHINE, "PG609", Kind.INFRA),
        (Cause.MACHINE, None, "PG609", Kind.INFRA),
        (Cause.HUNG, Cause.HUNG, "PG609", Kind.INFRA),
        (Cause.RAISED, None, "PG609", Kind.ASSUMED),
        (Cause.RAISED, Cause.RAISED, "PG609", Kind.ASSUMED),
    ],
)
def test_a_side_that_does_not_compile_is_judged_elsewhere(unpatched, patched, code, kind):
    verdict = judge(answer(cause=patched), answer(cause=unpatched))
    assert (verdict.code, verdict.kind) == (code, kind)
    assert verdict.actual.startswith("unpatched: " if unpatched else "patched: ")
