"""Judge a patch in a new interpreter: PG215, PG222 and PG223."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.new_interpreter import judge_new_interpreter
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Verdict

CASE = Case(torch="2.11.0", patch="mine")
SOURCE = "import os\nos.environ['X'] = '1'\ntorch.a = 1\n"
APPLIED = {"changed": ["torch.a"], "effects": [{"kind": "environment", "name": "X", "line": 2}]}


def judged(answer: dict[str, Any], **claims: Any) -> list[Verdict]:
    patch = Patch(
        id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine", **claims)
    )
    return list(judge_new_interpreter(CASE, patch, APPLIED, {"missing": [], "dead": []} | answer))


def dead(name: str) -> dict[str, Any]:
    return {
        "dead": [
            {
                "kind": "environment",
                "name": name,
                "older": [],
                "what": "set: nothing reads it",
                "line": None,
                "old": "",
            }
        ]
    }


def test_a_patch_that_does_the_same_is_green():
    (verdict,) = judged({})
    assert (verdict.code, verdict.kind) == ("PG211", Kind.PASS)


@pytest.mark.parametrize(
    ("claims", "kind"),
    [
        ({}, Kind.WARNING),
        ({"targets": ("torch.a",)}, Kind.REGRESSED),
        ({"targets": ("torch.a",), "scope": "block"}, Kind.WARNING),
    ],
)
def test_what_it_leaves_as_it_was_is_red_for_a_claimed_target(claims, kind):
    (verdict,) = judged({"missing": ["torch.a"]}, **claims)
    assert (verdict.code, verdict.kind, verdict.fact, verdict.where) == (
        "PG223",
        kind,
        "of torch.a",
        "/p/patch.py:3",
    )


@pytest.mark.parametrize(
    ("cause", "code", "kind"),
    [(Cause.RAISED, "PG222", Kind.REGRESSED), (Cause.MACHINE, "PG905", Kind.INFRA)],
)
def test_a_failure_is_the_patchs_unless_the_machine_failed(cause, code, kind):
    failure = {
        "cause": cause.value,
        "stage": "new interpreter",
        "signature": "boom",
        "where": "/p/patch.py:1",
    }
    (verdict,) = judged({"failure": failure})
    assert (verdict.code, verdict.kind, verdict.where) == (code, kind, "/p/patch.py:1")


def test_what_needs_a_device_is_not_guessed():
    (verdict,) = judged({"unmeasured": "needs a real device"})
    assert (verdict.code, verdict.kind) == ("PG906", Kind.NOTE)


def test_a_variable_that_nothing_reads_is_red_at_the_line_that_sets_it():
    (verdict,) = judged(dead("X"), applies_to=">=2.12")
    assert (verdict.code, verdict.kind, verdict.where) == ("PG215", Kind.REGRESSED, "/p/patch.py:2")


@pytest.mark.parametrize(
    ("applies_to", "kind"), [(">=2.11", Kind.REGRESSED), (">=2.12", Kind.NOTE)]
)
def test_a_variable_that_is_only_claimed_is_red_where_the_patch_is_claimed(applies_to, kind):
    (verdict,) = judged(dead("Y"), applies_to=applies_to)
    assert (verdict.code, verdict.kind) == ("PG215", kind)
