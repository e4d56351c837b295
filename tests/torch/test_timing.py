"""Paired times on the CPU: each side runs its own code.

Nothing is asserted of times but what is plain: 2 ms more.
"""

from dataclasses import replace

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, all_checks
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT
from patchgate.model.policy import Kind
from patchgate.model.records import Case
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

SLOWER = ROOT / "fixtures" / "verdicts" / "PG611-slower.py"
BUSY_US = 2000
SIDES = {"unpatched", "patched"}


@pytest.fixture
def context(run: Run, runner: Runner) -> CheckContext:
    return CheckContext(
        replace(run, patch=str(SLOWER)), load_patch(SLOWER), load_workloads(), runner
    )


@pytest.fixture(params=["default", pytest.param("reduce-overhead", marks=pytest.mark.nightly)])
def timed(context, torch, request, tmp_path):
    lock = tmp_path / "device.lock"
    lock.touch()
    answer = context.ask_building(
        torch,
        "time",
        "cpu",
        workload=replace(load_workloads()["residual_chain"], mode=request.param),
        patch=context.patch,
        size="small",
        built=str(tmp_path / "triton"),
        tuned=str(tmp_path / "tuned"),
        queue=str(lock),
        rounds=4,
        for_seconds=0.4,
        seed=0,
    )
    assert "failure" not in answer, answer
    return answer


def test_only_the_patched_side_is_busy_for_longer(timed):
    assert len(timed["rounds"]) == len(timed["elapsed"]) == 4
    for busy, elapsed in zip(timed["rounds"], timed["elapsed"], strict=True):
        assert (
            len(busy["unpatched"])
            == len(busy["patched"])
            == len(elapsed["unpatched"])
            == len(elapsed["patched"])
            > 0
        )
        assert min(busy["patched"]) >= BUSY_US
    # The side that is not busy is shorter once, however busy the machine.
    assert min(min(one["unpatched"]) for one in timed["rounds"]) < BUSY_US
    assert set(timed["first_call"]) == SIDES
    assert "load average" in timed["environment"]["device before"]
    assert "blocks" in timed["warm_up"]
    assert timed["held"] > 0


def test_what_takes_many_times_as_long_is_over_on_the_cpu(context, torch):
    case = Case(torch=torch, device="cpu", workload="residual_chain", patch=context.patch.id)
    (verdict,) = all_checks()["latency"].ask(context, Instance(case=case, size="small"))
    assert verdict.subject == "residual_chain.cpu small latency"
    assert (verdict.code, verdict.kind) == ("PG611", Kind.OVER), verdict.actual
