"""Two patches in one process: PG811 to PG814."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from patchgate.checks.interaction import judge_orders, judge_places
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict

ALONE = Case(torch="2.11.0", patch="one")
CASE = Case(torch="2.11.0", device="cpu", workload="w", patch="one")
FAILED = {"failure": {"cause": "raised", "stage": "patch", "signature": "boom"}}


def patch(name: str) -> Patch:
    return Patch(id=name, path=f"/p/{name}.py", source="", claims=Claims(title=name))


ONE, OTHER = patch("one"), patch("other")


def places(last: Iterable[str] = (), first: Iterable[str] = ()) -> list[Verdict]:
    return list(judge_places(ALONE, ONE, OTHER, ({"undone": list(last)}, {"undone": list(first)})))


def orders(last: dict[str, Any], first: dict[str, Any]) -> list[Verdict]:
    return list(judge_orders(CASE, ONE, OTHER, (last, first)))


def codes(verdicts: Iterable[Verdict]) -> list[str]:
    return [verdict.code for verdict in verdicts]


def test_patches_that_leave_each_other_in_place_get_along():
    (verdict,) = places()
    assert (verdict.code, verdict.colour, verdict.subject) == (
        "PG814",
        Colour.GREEN,
        "places next to other",
    )


@pytest.mark.parametrize(
    ("last", "first", "gone"), [(["torch.a"], [], "other's"), ([], ["torch.a"], "one's")]
)
def test_what_one_takes_away_from_the_other_is_named(last, first, gone):
    (verdict,) = places(last, first)
    assert (verdict.code, verdict.colour, verdict.actual.split(" ")[0]) == (
        "PG811",
        Colour.RED,
        gone,
    )
    assert (verdict.subject, verdict.where) == ("both torch.a", "/p/one.py:1")


def test_facts_that_depend_on_the_order_are_red():
    facts = {"facts": {"kernels.called": 1}}
    assert codes(orders(facts, facts)) == ["PG814"]
    (verdict,) = orders(facts, {"facts": {"kernels.called": 2}})
    assert (verdict.code, verdict.actual) == ("PG812", "kernels.called 1 or 2")
    assert (verdict.subject, verdict.case) == ("w.cpu next to other", CASE)


def test_two_patches_that_fail_together_are_red():
    (verdict,) = orders(FAILED, {"facts": {}})
    assert (verdict.code, verdict.colour, verdict.subject) == (
        "PG813",
        Colour.RED,
        "applied after other",
    )
    assert codes(judge_places(ALONE, ONE, OTHER, ({"undone": []}, FAILED))) == ["PG813"]
