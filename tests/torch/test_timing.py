"""Paired times on the CPU: each side runs its own code. What the times say is left to machines that are quiet."""

import pytest

from patchgate.matrix import load_profile, load_workloads
from patchgate.project import ROOT

SLOWER = ROOT / "fixtures" / "verdicts" / "PG611-slower.py"
WAIT_US = 2000


@pytest.fixture(params=["default", "reduce-overhead"])
def timed(runner, torch, request):
    workload = load_workloads()["residual_chain"]
    answer = runner.ask(
        torch,
        "time",
        workload=workload.name,
        workload_path=workload.path,
        dtype=workload.dtype,
        size="small",
        mode=request.param,
        profile=load_profile("cpu"),
        patch=str(SLOWER),
        rounds=4,
        for_seconds=0.4,
        seed=0,
    )
    assert "failure" not in answer, answer
    return answer


def test_only_the_patched_side_waits(timed):
    assert len(timed["rounds"]) == 4
    for one in timed["rounds"]:
        assert len(one["unpatched"]) == len(one["patched"]) > 0
        # What sleeps is at least as long; what does not is shorter once, however busy the machine.
        assert min(one["patched"]) >= WAIT_US
    assert min(min(one["unpatched"]) for one in timed["rounds"]) < WAIT_US
    assert set(timed["first_call"]) == {"unpatched", "patched"}
