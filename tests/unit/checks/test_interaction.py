"""Two patches in one process: PG811 to PG814."""

import pytest
from patchgate.checks.judge.together import judge_orders, judge_places

from patchgate.model.records import Claims, Colour, Patch

TORCH = "2.11.0"
FAILED = {"failure": {"cause": "raised", "stage": "patch", "signature": "boom"}}


def patch(name):
    return Patch(id=name, path=f"/p/{name}.py", source="", claims=Claims(title=name))


ONE, OTHER = patch("one"), patch("other")


def places(last=(), first=()):
    return list(judge_places(TORCH, ONE, OTHER, ({"undone": list(last)}, {"undone": list(first)})))


def orders(last, first):
    return list(judge_orders(TORCH, ONE, OTHER, "w.cpu", (last, first)))


def codes(verdicts):
    return [verdict.code for verdict in verdicts]


def test_patches_that_leave_each_other_in_place_get_along():
    (verdict,) = places()
    assert (verdict.code, verdict.colour) == ("PG814", Colour.GREEN)


@pytest.mark.parametrize(("last", "first", "gone"), [(["torch.a"], [], "other's"), ([], ["torch.a"], "one's")])
def test_what_one_takes_away_from_the_other_is_named(last, first, gone):
    (verdict,) = places(last, first)
    assert (verdict.code, verdict.colour, verdict.actual.split(" ")[0]) == ("PG811", Colour.RED, gone)


def test_facts_that_depend_on_the_order_are_red():
    facts = {"facts": {"kernels.called": 1}}
    assert codes(orders(facts, facts)) == ["PG814"]
    (verdict,) = orders(facts, {"facts": {"kernels.called": 2}})
    assert (verdict.code, verdict.actual) == ("PG812", "kernels.called 1 or 2")


def test_two_patches_that_fail_together_are_red():
    assert codes(orders(FAILED, {"facts": {}})) == ["PG813"]
    assert codes(judge_places(TORCH, ONE, OTHER, ({"undone": []}, FAILED))) == ["PG813"]
