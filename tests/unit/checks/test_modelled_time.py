"""Modelled times against the budget: PG621 to PG623, and silence where nothing was modelled."""

from __future__ import annotations

import pytest

from patchgate.checks.modelled_time import judge_modelled
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.budgets import MODEL_TELLS
from patchgate.model.records import Budget, Case, Colour, Observation, Verdict


def judge(before: float | None, after: float | None, **budgets: Budget) -> list[Verdict]:
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="t", budgets=budgets))
    sides = [
        Observation(
            case=Case(torch="2.11.0", device="h200", workload="stack", patch=who),
            metrics={} if time is None else {"modelled_time": time},
        )
        for who, time in ((None, before), ("mine", after))
    ]
    return judge_modelled(patch, *sides, "patch.toml:3")


@pytest.mark.parametrize(
    ("after", "code"),
    [(1000.0, "PG623"), (1005.0, "PG623"), (1005.1, "PG621"), (995.0, "PG623"), (994.9, "PG622")],
)
def test_the_budget_has_two_sides(after, code):
    (verdict,) = judge(1000.0, after)
    assert verdict.code == code
    assert (verdict.colour is Colour.GREEN) is (verdict.where is None) is (code == "PG623")


STRICT = {"modelled_time": Budget(low=-0.005, high=0.005)}


@pytest.mark.parametrize(("after", "code"), [(500.0, "PG622"), (1500.0, "PG621")])
def test_a_change_that_the_model_can_tell_is_red_against_a_claimed_budget_and_a_grey_note_otherwise(after, code):
    judged = [(v.code, v.colour) for given in ({}, STRICT) for v in judge(1000.0, after, **given)]
    assert judged == [(code, Colour.GREY), (code, Colour.RED)]


@pytest.mark.parametrize(("after", "admits"), [(500.0, '"-50 % .. 0 %"'), (1149.0, '"0 % .. 15 %"')])
def test_the_budget_that_is_advised_admits_what_was_modelled(after, admits):
    (verdict,) = judge(1000.0, after)
    assert verdict.advice.endswith(f"[budgets] modelled_time = {admits}.")


@pytest.mark.parametrize(("share", "colour"), [(0.99, Colour.GREY), (1.01, Colour.RED)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_claimed_budget_is_red_only_beyond_what_the_model_can_tell(share, colour, sign):
    (verdict,) = judge(1000.0, 1000.0 * (1 + sign * share * MODEL_TELLS), **STRICT)
    assert (verdict.code, verdict.colour) == ("PG621" if sign > 0 else "PG622", colour)


def test_a_change_that_is_budgeted_is_within_it_and_none_is_not():
    claimed = {"modelled_time": Budget(low=-0.02, high=-0.01)}
    assert [judge(1000.0, after, **claimed)[0].code for after in (985.0, 1000.0)] == ["PG623", "PG621"]


def test_the_figure_is_called_modelled_wherever_it_is_shown():
    (verdict,) = judge(1000.0, 1100.0)
    assert verdict.subject == "stack.h200"
    assert verdict.expected == "modelled, not measured: a change within 0.5 %"
    assert verdict.actual == "modelled 1000.0 -> 1100.0 us (+10.00%)"


@pytest.mark.parametrize("sides", [(None, 1.0), (1.0, None), (None, None), (0.0, 1.0)])
def test_what_did_not_compile_is_left_to_the_kernels_check(sides):
    assert judge(*sides) == []
