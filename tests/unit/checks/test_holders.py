"""Whether anything still holds what a patch has replaced: PG801, PG802 and PG806."""

from __future__ import annotations

from typing import Any

from patchgate.checks.holders import judge_holders
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.records import Case, Colour, Verdict

CASE = Case(torch="2.11.0", patch="mine")
SOURCE = "import a\n\n\ndef f(x):\n    return x\n\n\na.b.f = f\n"
PATCH = Patch(id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine"))


def holders(**answer: Any) -> list[Verdict]:
    return list(judge_holders(CASE, PATCH, {"changed": ["torch.b.f"], "holders": {}, "unreachable": []} | answer))


def test_a_replacement_that_everybody_gets_is_green():
    (verdict,) = holders()
    assert (verdict.code, verdict.colour) == ("PG806", Colour.GREEN)


def test_who_still_holds_the_original_is_named_at_the_line_that_replaced_it():
    (verdict,) = holders(holders={"torch.b.f": [f"torch.c{n}.f" for n in range(8)]})
    assert (verdict.code, verdict.where) == ("PG801", "/p/patch.py:8")
    assert verdict.subject == "holders of torch.b.f"
    assert verdict.actual.endswith("torch.c5.f and 2 more")


def test_a_target_that_cannot_be_called_is_named():
    (verdict,) = holders(unreachable=["torch.b.f"])
    assert (verdict.code, verdict.subject) == ("PG802", "torch.b.f")
