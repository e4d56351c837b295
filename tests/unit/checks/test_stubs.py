"""A name of a stub that a patch uses is named, grey, and stops nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchgate.checks.framework.find_checks import NothingToJudge
from patchgate.checks.stubs import judge_stubs
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.exit_code import exit_code
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case

CASE = Case(torch="2.11.0", patch="mine")
PATCH = Patch(
    id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine", stubs=("a._C", "flash"))
)


def use(name: str, line: int, by_patch: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "where": f"/p/{'patch' if by_patch else 'helper'}.py:{line}",
        "by_patch": by_patch,
    }


def test_what_the_patch_used_of_a_project_is_one_grey_verdict_with_each_name_once() -> None:
    installing, compiling = (
        [use("a._C.ops", 3), use("flash.x", 9, by_patch=False)],
        [use("a._C.ops()", 12), use("b", 4)],
    )
    verdicts = judge_stubs(
        CASE, PATCH, [{"stubbed": installing}, {"stubbed": installing + compiling}]
    )
    assert [(v.code, v.item, v.where, v.actual) for v in verdicts] == [
        ("PG230", "a", "/p/patch.py:3", "a stand-in; the patch uses a._C.ops()"),
        ("PG230", "b", "/p/patch.py:4", "a stand-in; the patch uses b"),
    ]
    assert {v.colour for v in verdicts} == {Colour.GREY}
    assert exit_code(verdicts) == 0


@pytest.mark.parametrize(
    ("uses", "actual"),
    [([], "no name used"), ([use("flash.x", 9, by_patch=False)], "1 names used by other files")],
)
def test_what_other_files_use_is_no_matter_of_the_patch(
    uses: list[dict[str, Any]], actual: str
) -> None:
    (verdict,) = judge_stubs(CASE, PATCH, [{"stubbed": uses}])
    assert (verdict.code, verdict.kind, verdict.item, verdict.actual) == (
        "PG231",
        Kind.PASS,
        "a, flash",
        actual,
    )


def test_why_a_module_of_the_project_cannot_be_imported_is_said() -> None:
    (verdict,) = judge_stubs(
        CASE, replace(PATCH, stand_ins={"a.b": "ImportError: no GPU"}), [{"stubbed": []}]
    )
    assert verdict.actual == "no name used (a.b: ImportError: no GPU)"


def test_a_patch_whose_imports_are_all_there_is_not_judged() -> None:
    with pytest.raises(NothingToJudge):
        judge_stubs(CASE, replace(PATCH, claims=Claims(title="Mine")), [{"stubbed": []}])
