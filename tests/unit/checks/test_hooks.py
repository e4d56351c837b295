"""Judge hooks of a user into the compiler that are not called any more: PG804, PG806 and PG809."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.hooks import judge_hooks, judge_keys
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Cause, Verdict

CASE = Case(torch="2.11.0", patch="mine")
PATCH = Patch(id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine"))


def hooks(unpatched: dict[str, Any], patched: dict[str, Any]) -> list[Verdict]:
    return list(judge_hooks(CASE, PATCH, unpatched, {"replaced": []} | patched))


def failed(cause: Cause) -> dict[str, Any]:
    return {"failure": {"cause": cause.value, "stage": "compile", "signature": "boom"}}


@pytest.mark.parametrize(
    ("own", "replaced", "colour"),
    [((), (), Colour.RED), (("a",), (), Colour.GREY), ((), ("a",), Colour.GREY)],
)
def test_setting_the_option_of_a_hook_is_a_note(own, replaced, colour):
    patched = {"called": {}, "replaced": replaced, "asked": {}}
    (verdict,) = judge_hooks(CASE, PATCH, {"called": {"a": 2}, "asked": {}}, patched, own)
    assert (verdict.code, verdict.colour) == ("PG804", colour)


def test_a_hook_that_is_no_longer_called_is_red():
    (verdict,) = hooks({"called": {"a": 2, "b": 1}, "asked": {}}, {"called": {"b": 1}, "asked": {}})
    assert (verdict.code, verdict.subject) == ("PG804", "hook a")
    assert verdict.actual == "called twice without the patch, never with it"
    (verdict,) = hooks({"called": {"a": 5}, "asked": {}}, {"called": {}, "asked": {}})
    assert verdict.actual == "called 5 times without the patch, never with it"
    (verdict,) = hooks({"called": {"a": 2}, "asked": {}}, {"called": {"a": 1}, "asked": {}})
    assert (verdict.code, verdict.subject) == ("PG806", "hooks")


@pytest.mark.parametrize(
    ("unpatched", "patched", "code", "kind", "actual"),
    [
        (
            {"called": {}, "asked": {}},
            failed(Cause.RAISED),
            "PG808",
            Kind.REGRESSED,
            "patched: boom, during `compile`",
        ),
        (
            failed(Cause.RAISED),
            {"called": {}, "asked": {}},
            "PG809",
            Kind.ASSUMED,
            "unpatched: boom, during `compile`",
        ),
        (
            failed(Cause.RAISED),
            failed(Cause.RAISED),
            "PG809",
            Kind.ASSUMED,
            "unpatched: boom, during `compile`",
        ),
        (
            {"called": {}, "asked": {}},
            failed(Cause.MACHINE),
            "PG809",
            Kind.INFRA,
            "patched: machine: boom, during `compile`",
        ),
    ],
)
def test_hooks_are_not_judged_where_a_side_failed(unpatched, patched, code, kind, actual):
    (verdict,) = hooks(unpatched, patched)
    assert (verdict.code, verdict.kind, verdict.subject, verdict.actual) == (
        code,
        kind,
        "hooks",
        actual,
    )


MODE, OPTIONS = "mode='max-autotune'", "options=..."
GIVEN = {
    MODE: {"max_autotune": "True"},
    OPTIONS: {"inplace_buffers": "False"},
    "fullgraph": {"": "compiled"},
}


@pytest.mark.parametrize(
    ("got", "lost"),
    [
        (GIVEN, []),
        (
            GIVEN | {MODE: {"max_autotune": "False"}},
            [(MODE, "max_autotune=True", "max_autotune=False")],
        ),
        (
            GIVEN | {OPTIONS: {"": "raises TypeError"}},
            [(OPTIONS, "inplace_buffers=False", "raises TypeError")],
        ),
    ],
)
def test_option_of_a_call_that_is_no_longer_in_force_is_red(got, lost):
    verdicts = hooks({"called": {}, "asked": GIVEN}, {"called": {}, "asked": got})
    assert [(v.fact, v.expected, v.actual) for v in verdicts if v.colour is Colour.RED] == lost


def test_call_without_options_that_raises_with_the_patch_is_red():
    (verdict,) = hooks(
        {"called": {}, "asked": GIVEN},
        {"called": {}, "asked": GIVEN | {"fullgraph": {"": "raises X"}}},
    )
    assert (verdict.code, verdict.actual) == ("PG804", "raises X")


def test_option_that_the_patch_sets_itself_is_a_note():
    sides = (
        {"called": {}, "asked": GIVEN},
        {"called": {}, "asked": GIVEN | {OPTIONS: {"inplace_buffers": "True"}}},
    )
    (verdict,) = judge_hooks(CASE, PATCH, *sides, {"inplace_buffers"})
    assert (verdict.code, verdict.colour) == ("PG804", Colour.GREY)


@pytest.mark.parametrize(
    ("before", "after", "is_red"),
    [("a", "a", True), ("a", "b", False), ("", "", False), ("a", "", False)],
)
def test_a_key_that_an_edit_of_the_users_pass_does_not_change_is_red(before, after, is_red):
    edits = [("no key", {"hook": ""}, {}), ("a key", {"hook": before}, {"hook": after})]
    verdicts = list(judge_keys(CASE, PATCH, edits))
    assert [each.code for each in verdicts if each.colour is Colour.RED] == ["PG804"] * is_red
    assert [each.subject for each in verdicts] == ["key of hook"] * is_red
