"""Findings of the probe -> PG101 to PG105."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.api import judge_api
from patchgate.model.records import Case, Claims, Kind, Patch, Verdict

CASE = Case(torch="2.11.0", patch="mine")


def judge(*findings: dict[str, Any], claim: str | None = "patch.toml:5") -> list[Verdict]:
    patch = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
    return list(judge_api(CASE, patch, {"findings": findings}, claim))


def finding(code: str, line: int | None = 3) -> dict[str, Any]:
    return {"code": code, "subject": "target torch.a", "line": line, "expected": "exists", "actual": "no torch.a"}


@pytest.mark.parametrize("code", ["PG101", "PG102", "PG103", "PG104"])
def test_a_name_that_does_not_hold_is_red(code):
    (verdict,) = judge(finding(code))
    assert (verdict.code, verdict.kind, verdict.check) == (code, Kind.REGRESSED, "api")
    assert (verdict.subject, verdict.expected, verdict.actual) == ("target torch.a", "exists", "no torch.a")
    assert (verdict.case, verdict.item, verdict.fact) == (CASE, "target", "torch.a")


def test_a_name_that_holds_is_green():
    assert [verdict.kind for verdict in judge(finding("PG105"))] == [Kind.PASS]


def test_a_patch_that_names_nothing_of_torch_has_a_verdict_too():
    (verdict,) = judge()
    assert (verdict.code, verdict.kind, verdict.actual) == ("PG105", Kind.NOTE, "the patch's own text names none")


@pytest.mark.parametrize(
    ("line", "claim", "where"),
    [(3, "patch.toml:5", "patch.py:3"), (None, "patch.toml:5", "patch.toml:5"), (None, None, None)],
)
def test_a_finding_points_to_its_line_or_else_to_the_claim(line, claim, where):
    assert judge(finding("PG101", line), claim=claim)[0].where == where


def test_there_is_a_verdict_for_each_finding():
    assert len(judge(finding("PG101"), finding("PG105"), finding("PG101"))) == 3
