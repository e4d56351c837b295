"""Judge the answers of opcheck about the operators that a patch defines -> PG541 to PG543."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchgate.checks.custom_operators import judge_custom_operators, operator_place
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict

CASE = Case(torch="2.11.0", patch="mine")
SOURCE = 'import torch\n\n\n@torch.library.custom_op("a::mm", mutates_args=())\ndef mm(a): ...\n'
PATCH = Patch(id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine"))


FAULT = "a.mm.default(float32[4, 8]): faketensor: dtypes"
OF_GRADIENT = "a.mm.default(float64[4, 8]): its gradient of `a` is not the slope of its result"
OF_SCHEMA = "a.mm.default(float32[4, 8]): schema: returns its argument"
FAKE = 'torch.library.register_fake("a::mm"'


def judged(**operators: tuple[int, list[str]]) -> list[Verdict]:
    answer = {
        f"a::{name}": {"calls": calls, "faults": faults, "some": []}
        for name, (calls, faults) in operators.items()
    }
    return list(judge_custom_operators(CASE, PATCH, answer))


def test_operators_that_are_what_they_say_are_green_together():
    (verdict,) = judged(mm=(6, []), add=(4, []))
    assert (verdict.code, verdict.actual) == ("PG542", "a::mm, a::add: 10 calls")


def test_a_fault_is_red_for_its_operator():
    faulty, sound = judged(mm=(1, ["a.mm.default(float32[4, 8]): faketensor: dtypes"]), add=(4, []))
    assert (faulty.code, faulty.colour, faulty.fact) == ("PG541", Colour.RED, "of a::mm")
    assert "faketensor" in faulty.headline
    assert sound.code == "PG542"


def test_an_operator_that_no_call_ran_of_is_a_note():
    (verdict,) = judged(mm=(0, []))
    assert (verdict.code, verdict.colour) == ("PG543", Colour.GREY)


def test_a_fault_that_other_shapes_do_not_have_is_a_note():
    answer = {"a::mm": {"calls": 2, "faults": [], "some": ["a.mm.default(float32[4, 8]): shapes"]}}
    (verdict,) = judge_custom_operators(CASE, PATCH, answer)
    assert (verdict.code, verdict.colour) == ("PG543", Colour.GREY)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("", 5),
        ("@mm.register_fake\ndef _(a): ...\n", 9),
        (f"@{FAKE})\ndef _(a): ...\n", 9),
        (f"def fake(a): ...\n{FAKE}, fake)\n", 8),
        (f"{FAKE}, torch.empty_like)\n", 8),
        ("@other.register_fake\ndef _(a): ...\n", 5),
        ("@mm.register_autograd\ndef _(a): ...\n", 5),
    ],
)
def test_a_fault_of_the_fake_function_is_at_that_function(more, line):
    source = f"{SOURCE}\n\n{more}\n\ntorch.mm = mm\n"
    patch = replace(PATCH, source=source)
    for fault, place in ((FAULT, line), (OF_SCHEMA, 5)):
        answer = {"a::mm": {"calls": 1, "faults": [fault], "some": []}}
        (verdict,) = judge_custom_operators(CASE, patch, answer)
        assert (verdict.where or "").rpartition(":")[2] == str(place)


@pytest.mark.parametrize(
    "more", ["@mm.register_autograd\ndef _(a): ...\n", "\ndef g(a): ...\nmm.register_autograd(g)\n"]
)
def test_a_fault_of_the_gradient_is_at_its_formula(more):
    patch = replace(PATCH, source=f"{SOURCE}\n\n{more}\n\ntorch.mm = mm\n")
    assert operator_place(patch, "a::mm", OF_GRADIENT).endswith(":9")


def test_an_operator_is_found_by_the_constant_that_names_it():
    source = 'NAME = "a::mm"\n@torch.library.custom_op(NAME, mutates_args=())\ndef own(a): ...\n'
    patch = replace(PATCH, source=f"{source}@own.register_fake\ndef _(a): ...\n")
    places = [operator_place(patch, "a::mm", fault) for fault in (OF_SCHEMA, FAULT)]
    assert [place.rpartition(":")[2] for place in places] == ["3", "5"]
