"""Findings of the probe -> PG101 to PG105."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.api import (
    ADDED,
    as_in_lint,
    judge_api,
    missing_targets,
    names_not_needed,
)
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict

CASE = Case(torch="2.11.0", patch="mine")


def judge(*findings: dict[str, Any], claim: str | None = "patch.toml:5") -> list[Verdict]:
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
    return list(judge_api(CASE, patch, {"findings": findings}, claim))


def finding(code: str, line: int | None = 3) -> dict[str, Any]:
    return {
        "code": code,
        "subject": "target torch.a",
        "line": line,
        "expected": "exists",
        "actual": "no torch.a",
    }


@pytest.mark.parametrize("code", ["PG101", "PG102", "PG103", "PG104"])
def test_a_name_that_does_not_hold_is_red(code):
    (verdict,) = judge(finding(code))
    assert (verdict.code, verdict.kind, verdict.check) == (code, Kind.REGRESSED, "api")
    assert (verdict.subject, verdict.expected, verdict.actual) == (
        "target torch.a",
        "exists",
        "no torch.a",
    )
    assert (verdict.case, verdict.item, verdict.fact) == (CASE, "target", "torch.a")


def test_a_name_that_holds_is_green():
    assert [verdict.kind for verdict in judge(finding("PG105"))] == [Kind.PASS]


def test_a_patch_that_names_nothing_of_torch_has_a_verdict_too():
    (verdict,) = judge()
    assert (verdict.code, verdict.kind, verdict.actual) == (
        "PG105",
        Kind.NOTE,
        "the text of the patch uses none",
    )


@pytest.mark.parametrize(
    ("line", "claim", "where"),
    [(3, "patch.toml:5", "patch.py:3"), (None, "patch.toml:5", "patch.toml:5"), (None, None, None)],
)
def test_a_finding_points_to_its_line_or_else_to_the_claim(line, claim, where):
    assert judge(finding("PG101", line), claim=claim)[0].where == where


def test_there_is_a_verdict_for_each_finding():
    assert len(judge(finding("PG101"), finding("PG105"), finding("PG101"))) == 3


GATED = """
import torch
from torch._inductor.ir import StorageBox

if torch.__version__ < "2.0":
    StorageBox.gone_a
def f():
    if torch.__version__ >= "2.0":
        return None
    from torch._inductor import gone_b
def g():
    try:
        return StorageBox.gone_c
    except AttributeError:
        return StorageBox.gone_d
def h():
    return StorageBox.gone_e
"""


def test_a_name_that_a_gate_or_a_guard_keeps_from_being_needed_is_a_note_as_in_lint():
    unneeded = names_not_needed(GATED, "2.11.0")
    assert {name for _, name in unneeded} >= {"gone_a", "gone_c"}
    assert "gone_e" not in {name for _, name in unneeded}
    read = {"code": "PG103", "expected": "exists", "actual": "no such attribute"}
    patch = Patch(id="mine", path="patch.py", source=GATED, claims=Claims(title="Mine"))
    findings = [
        read | {"subject": f"attribute torch.{name}", "line": line} for line, name in unneeded
    ]
    findings.append(read | {"subject": "attribute torch.gone_e", "line": 17})
    kinds = [
        verdict.kind for verdict in judge_api(CASE, patch, {"findings": findings}, None, unneeded)
    ]
    assert kinds == [*[Kind.NOTE] * len(unneeded), Kind.REGRESSED]


def test_of_a_release_that_is_not_indexed_every_missing_name_is_red():
    assert names_not_needed(GATED, "1.0.0") == frozenset()


@pytest.mark.parametrize(
    ("code", "kind"),
    [("PG101", Kind.NOTE), ("PG103", Kind.NOTE), ("PG104", Kind.NOTE), ("PG102", Kind.REGRESSED)],
)
def test_a_name_that_is_missing_where_the_patch_is_not_claimed_is_a_note(code, kind):
    patch = Patch(
        id="mine", path="patch.py", source="", claims=Claims(title="Mine", applies_to=">=2.12")
    )
    (verdict,) = judge_api(CASE, patch, {"findings": [finding(code)]}, None)
    assert (verdict.code, verdict.kind) == (code, kind)


def by_name(subject: str, *parameters: str) -> dict[str, Any]:
    return {
        "code": "PG102",
        "subject": f"signature {subject}",
        "line": 3,
        "expected": "",
        "actual": "",
        "by_name": [*parameters],
    }


@pytest.mark.parametrize(
    ("function", "parameter", "code"),
    [
        # lowering.py calls it with `dtype=dtype`, and with the other by position.
        ("torch._inductor.ir.get_reduction_combine_fn", "dtype", "PG102"),
        ("torch._inductor.ir.get_reduction_combine_fn", "reduction_type", "PG105"),
        (
            "torch._inductor.codegen.wrapper.PythonWrapperCodegen.generate_fallback_kernel",
            "node",
            "PG105",
        ),
    ],
)
@pytest.mark.parametrize("torch", ["2.11.0", "99.0"])
def test_another_name_of_a_parameter_is_red_where_torch_passes_it_by_name(
    torch, function, parameter, code
):
    assert as_in_lint(by_name(function, parameter), torch, {})["code"] == code


def test_what_cannot_be_passed_at_all_is_red_without_a_caller():
    fault = by_name("torch._inductor.ir.get_reduction_combine_fn")
    assert as_in_lint(fault, "2.11.0", {}) is fault


ADDING = """
from torch._inductor.ir import TemplateBuffer

def mine(self, node):
    return False

TemplateBuffer.has_aliasing_or_mutation_for_prologue_fusion = mine
TemplateBuffer.patched_by_us = mine
"""


def test_a_name_that_only_other_releases_have_is_red_and_one_of_the_patchs_own_is_not():
    name = "has_aliasing_or_mutation_for_prologue_fusion"
    new = missing_targets(ADDING, "2.11.0")
    assert new == {name: (7, "only in other releases")}
    assert missing_targets(ADDING, "2.13.0") == {}
    assert missing_targets(ADDING, "99.0") == {}
    read = {
        "code": "PG105",
        "line": None,
        "expected": "new in torch",
        "actual": "added by the patch",
    }
    theirs, ours = (
        {**read, "subject": f"attribute torch._inductor.ir.TemplateBuffer.{each}"}
        for each in (name, "patched_by_us")
    )
    assert as_in_lint(ours, "2.11.0", new) is ours
    (verdict,) = judge(dict(as_in_lint(theirs, "2.11.0", new)))
    assert (verdict.code, verdict.kind, verdict.where) == ("PG103", Kind.REGRESSED, "patch.py:7")


@pytest.mark.parametrize(
    ("name", "new", "code", "actual"),
    [
        (
            "torch._inductor.ir.StorageBox.should_realise_on_reuse",
            {},
            "PG101",
            "should_realize_on_reuse",
        ),
        ("torch._inductor.ir.StorageBox.plan_after_reuse", {}, "PG105", "added by the patch"),
        (
            "torch._inductor.ir.StorageBox.plan_after_reuse",
            {"plan_after_reuse": (9, "only in other releases")},
            "PG101",
            "only in other releases",
        ),
    ],
)
@pytest.mark.parametrize("torch", ["2.11.0", "99.0"])
def test_a_target_that_the_patch_adds_is_its_own_unless_it_is_meant_for_a_name_of_torch(
    torch, name, new, code, actual
):
    added = {"code": "PG105", "subject": f"target {name}", "line": None, "expected": ADDED}
    judged = as_in_lint(added | {"actual": "added by the patch"}, torch, new)
    assert judged["code"] == code
    assert actual in judged["actual"]
