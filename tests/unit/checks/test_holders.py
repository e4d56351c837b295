"""Judge objects that still hold what a patch has replaced: PG801, PG802 and PG806."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchgate.checks.holders import judge_holders
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict

CASE = Case(torch="2.11.0", patch="mine")
SOURCE = "import a\n\n\ndef f(x):\n    return x\n\n\na.b.f = f\n"
PATCH = Patch(id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine"))


NOTHING: dict[str, Any] = {
    "holders": {},
    "unreachable": [],
    "claimed": {},
    "overrides": [],
    "bypassed": {},
}
UNREACHED = {"torch.b.f": "no line of torch can call the replacement"}


def holders(callers: dict[str, str] | None = None, **answer: Any) -> list[Verdict]:
    answer = {**NOTHING, "changed": ["torch.b.f"]} | answer
    return list(judge_holders(CASE, PATCH, answer, callers or {}))


def test_a_replacement_that_everybody_gets_is_green():
    (verdict,) = holders()
    assert (verdict.code, verdict.colour) == ("PG806", Colour.GREEN)


def test_who_still_holds_the_original_is_named_at_the_line_that_replaced_it():
    (verdict,) = holders(holders={"torch.b.f": [f"torch.c{n}.f" for n in range(8)]})
    assert (verdict.code, verdict.where) == ("PG801", "/p/patch.py:8")
    assert verdict.subject == "holders of torch.b.f"
    assert verdict.actual.endswith("torch.c5.f and 2 more")


def test_a_holder_is_a_note_unless_the_original_is_called():
    held = {"torch.b.f": ["torch.c.f"]}
    (note,) = holders(holders=held)
    (called,) = holders({"torch.b.f": "torch/c.py:3"}, holders=held)
    (bypassed,) = holders(holders=held, bypassed=UNREACHED)
    assert [each.colour for each in (note, called, bypassed)] == [
        Colour.GREY,
        Colour.RED,
        Colour.RED,
    ]
    assert called.actual == "torch.c.f; torch/c.py:3 called the original"
    assert bypassed.actual == "torch.c.f; no line of torch can call the replacement"


@pytest.mark.parametrize(
    ("later", "targets", "colour"),
    [
        (("torch.c.f", "torch.d.f"), (), Colour.GREY),
        (("torch.c.f", "torch.d.f"), ("torch.b.f",), Colour.RED),
        (("torch.c.f",), (), Colour.RED),
    ],
)
def test_what_is_loaded_after_the_patch_is_a_note_unless_the_target_is_claimed(
    later, targets, colour
):
    answer = {
        **NOTHING,
        "changed": ["torch.b.f"],
        "holders": {"torch.b.f": ["torch.c.f", "torch.d.f"]},
        "bypassed": UNREACHED,
    }
    mine = replace(PATCH, claims=Claims(title="Mine", targets=targets))
    (verdict,) = judge_holders(CASE, mine, answer, {}, later)
    assert (verdict.code, verdict.colour) == ("PG801", colour)


def test_a_target_that_cannot_be_called_is_named():
    (verdict,) = holders(unreachable=["torch.b.f"])
    assert (verdict.code, verdict.subject) == ("PG802", "torch.b.f")


@pytest.mark.parametrize(("targets", "colour"), [(("torch.b.f",), Colour.RED), (None, Colour.GREY)])
def test_a_method_that_cannot_be_called_is_red_where_it_is_claimed(targets, colour):
    patch = replace(PATCH, claims=Claims(title="Mine", targets=targets))
    answer = {**NOTHING, "changed": ["torch.b.f"], "unreachable": ["torch.b.f"]}
    (verdict,) = judge_holders(CASE, patch, answer, {})
    assert (verdict.code, verdict.colour) == ("PG802", colour)
