"""What a patch uses of a stub is named, grey, and stops nobody."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.framework.find_checks import all_checks
from patchgate.checks.stubs import judge_stubs
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.exit_code import exit_code
from patchgate.model.records import Case, Colour, Kind
from patchgate.runner.run_settings import Run

CASE = Case(torch="2.11.0", patch="mine")
PATCH = Patch(id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine", stubs=("a._C", "flash")))


def use(name: str, line: int, by_patch: bool = True) -> dict[str, Any]:
    return {"name": name, "where": f"/p/{'patch' if by_patch else 'helper'}.py:{line}", "by_patch": by_patch}


def test_each_name_that_the_patch_used_is_a_grey_verdict_at_its_line() -> None:
    installing, compiling = [use("a._C.ops", 3), use("flash.x", 9, by_patch=False)], [use("a._C.ops()", 12)]
    verdicts = judge_stubs(CASE, PATCH, [{"stubbed": installing}, {"stubbed": installing + compiling}])
    assert [(v.code, v.item, v.where) for v in verdicts] == [
        ("PG230", "a._C.ops", "/p/patch.py:3"),
        ("PG230", "a._C.ops()", "/p/patch.py:12"),
    ]
    assert {v.colour for v in verdicts} == {Colour.GREY}
    assert exit_code(verdicts) == 0


@pytest.mark.parametrize(
    ("uses", "actual"),
    [([], "no name used"), ([use("flash.x", 9, by_patch=False)], "1 names used by other files")],
)
def test_what_other_files_use_is_no_matter_of_the_patch(uses: list[dict[str, Any]], actual: str) -> None:
    (verdict,) = judge_stubs(CASE, PATCH, [{"stubbed": uses}])
    assert (verdict.code, verdict.kind, verdict.item, verdict.actual) == ("PG231", Kind.PASS, "a._C, flash", actual)


@pytest.mark.parametrize(("stubs", "asked"), [((), False), (("a",), True)])
def test_a_patch_without_stubs_is_not_asked(stubs: tuple[str, ...], asked: bool) -> None:
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="Mine", stubs=stubs))
    assert all_checks()["stubs"].wanted(Run(folder="f", patch="p.py", rows={}), patch) is asked
