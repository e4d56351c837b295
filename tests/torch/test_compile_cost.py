"""Calls of a compile repeat: unpatched against unpatched is never over the budget."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from patchgate.checks.compile_cost import judge_calls
from patchgate.inputs.devices import load_profile
from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.policy import Kind
from patchgate.model.records import Case
from patchgate.model.serialization import Answer
from patchgate.runner.client import Runner, request_for

NOTHING = Patch(id="nothing", path="patch.py", source="", claims=Claims(title="Nothing"))
# The whole proof is 30 pairs, `PATCHGATE_PAIRS=30`; two show that it still holds.
PAIRS = int(os.environ.get("PATCHGATE_PAIRS", "2"))


@pytest.fixture
def calls(torch: str, runner: Runner) -> Callable[..., Answer]:
    def count(name: str, **more: Any) -> Answer:
        return runner.ask(
            torch, "calls", **request_for(load_workloads()[name], load_profile("h200"), None) | more
        )

    return count


# The workloads of the compile check. Dynamic shapes have none: once in a few pairs, sympy's own
# work was 0.5 % more.
@pytest.mark.parametrize(
    "workload", [pytest.param("residual_chain", marks=pytest.mark.nightly), "pointwise"]
)
def test_a_side_against_itself_is_within_budget(torch, calls, workload):
    case = Case(torch=torch, device="h200", workload=workload)
    verdicts = [judge_calls(case, NOTHING, calls(workload), calls(workload)) for _ in range(PAIRS)]
    assert {verdict.kind for verdict in verdicts} == {Kind.PASS}, [v.actual for v in verdicts]


def test_our_own_work_is_not_counted(calls):
    counted = calls("pointwise")["calls"]
    assert sum(counted.values()) > 10_000
    assert not [name for name in counted if name.startswith("patchgate")]


@pytest.mark.parametrize(
    ("source", "signature"), [("raise OSError('mine')", "OSError: mine"), ("1 +", "SyntaxError")]
)
def test_a_patch_that_does_not_run_has_no_count(calls, tmp_path, source, signature):
    patch = tmp_path / "patch.py"
    patch.write_text(source)
    counted = calls("pointwise", patch=str(patch))
    assert counted["failure"]["signature"].startswith(signature)


# Functions made from one text are equal as code, as the methods of dataclasses are.
_TWINS = """
from torch._inductor.graph import GraphLowering

def twin():
    made = {}
    exec("def made(): pass", made)
    return made["made"]

twins, codegen = [twin() for _ in range(20)], GraphLowering.codegen

def call_twins(self):
    for each in twins:
        for _ in range(100):
            each()
    return codegen(self)

GraphLowering.codegen = call_twins
"""


def test_each_of_several_functions_of_equal_code_is_counted(calls, tmp_path):
    patch = tmp_path / "patch.py"
    patch.write_text(_TWINS)
    more = (
        calls("pointwise", patch=str(patch))["calls"]["generated"]
        - calls("pointwise")["calls"]["generated"]
    )
    assert 2_000 <= more < 2_100, "20 functions, 100 calls of each"
