"""Calls of a compile repeat: unpatched against unpatched is never over the budget."""

import os

import pytest

from patchgate.judge.compilework import judge_calls
from patchgate.matrix import load_profile, load_workloads
from patchgate.model import Claims, Kind, Patch

NOTHING = Patch(id="nothing", path="patch.py", source="", claims=Claims(title="Nothing"))
# The whole proof is 30 pairs, `PATCHGATE_PAIRS=30`; two show that it still holds.
PAIRS = int(os.environ.get("PATCHGATE_PAIRS", "2"))


@pytest.fixture
def calls(torch, runner):
    def count(name):
        workload = load_workloads()[name]
        return runner.ask(
            torch,
            "calls",
            workload=workload.name,
            workload_path=workload.path,
            dtype=workload.dtype,
            dynamic=workload.dynamic,
            profile=load_profile("h200"),
            patch=None,
        )

    return count


# Those of the compile check. Dynamic shapes have none: once in a few pairs, sympy's own work was 0.5 % more.
@pytest.mark.parametrize("workload", ["residual_chain", "pointwise"])
def test_a_side_against_itself_is_within_budget(torch, calls, workload):
    verdicts = [judge_calls(torch, workload, NOTHING, calls(workload), calls(workload)) for _ in range(PAIRS)]
    assert {verdict.kind for verdict in verdicts} == {Kind.PASS}, [v.actual for v in verdicts]


def test_our_own_work_is_not_counted(calls):
    counted = calls("pointwise")["calls"]
    assert sum(counted.values()) > 10_000
    assert not [name for name in counted if name.startswith("patchgate")]
