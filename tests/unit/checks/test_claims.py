"""Limits of a manifest that hardly any patch goes beyond are shown, and nothing is red for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchgate.checks.claims import ask_claims, wide_limits
from patchgate.checks.framework.find_checks import Instance, all_checks
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.exit_code import exit_code
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Budget, Case


def patch(**claims: Any) -> Patch:
    return Patch(id="mine", path="mine.py", source="", claims=Claims(title="t", **claims))


WIDE = {
    "error_factor": {"error_factor": 1e9},
    "largest_ulps": {"largest_ulps": 1e9},
    "kernels": {"budgets": {"kernels": Budget(low=-1.0, high=1.01)}},
}
USUAL = [
    {},
    {"error_factor": 10.0, "largest_ulps": 524288.0},
    {"budgets": {"kernels": Budget(low=-50.0, high=1.0)}},
]


@pytest.mark.parametrize("name", WIDE)
def test_a_limit_beyond_what_is_usual_is_a_grey_note(name: str) -> None:
    wide = patch(**WIDE[name])
    assert all_checks()["claims"].wanted(SimpleNamespace(), wide)  # type: ignore[arg-type]
    (verdict,) = ask_claims(SimpleNamespace(patch=wide), Instance(case=Case(torch="2.11.0")))  # type: ignore[arg-type]
    assert (verdict.code, verdict.kind, verdict.colour, verdict.item) == (
        "PG232",
        Kind.WARNING,
        Colour.GREY,
        name,
    )
    assert exit_code([verdict]) == 0


@pytest.mark.parametrize("claims", USUAL)
def test_a_usual_limit_is_no_note(claims: dict[str, Any]) -> None:
    assert wide_limits(patch(**claims).claims) == {}
    assert not all_checks()["claims"].wanted(SimpleNamespace(), patch(**claims))  # type: ignore[arg-type]


def test_a_kind_of_effect_without_a_name_is_a_grey_note() -> None:
    wide = patch(effects=("config", "compile", "environment A"))
    assert all_checks()["claims"].wanted(SimpleNamespace(), wide)  # type: ignore[arg-type]
    (verdict,) = ask_claims(SimpleNamespace(patch=wide), Instance(case=Case(torch="2.11.0")))  # type: ignore[arg-type]
    assert (verdict.code, verdict.colour, verdict.item) == ("PG232", Colour.GREY, "config")
    named = patch(effects=("config a.b", "compile", "threads"))
    assert not all_checks()["claims"].wanted(SimpleNamespace(), named)  # type: ignore[arg-type]
