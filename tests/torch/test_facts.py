"""The simulated H200 gives the facts of the real one, and the counters count."""

import pytest

from patchgate.golden import expectation, path_of, read_golden
from patchgate.judge.machine import judge_sentinel
from patchgate.matrix import load_profile, load_workloads
from patchgate.model import Case, Kind
from patchgate.patches import load_patch
from patchgate.project import GOLDEN, ROOT

# DESIGN, measured fact 1: the same on the real device and in simulation.
STACK = {
    "kernels.called": 13,
    "kernels.distinct": 7,
    "loads": (2, 1, 3, 4, 5, 6, 4),
    "lowering.ir_nodes": 33,
    "bytes.total": 1_241_528_320,
}
STACK_PATCHED = {
    "kernels.called": 13,
    "kernels.distinct": 6,
    "loads": (2, 1, 3, 4, 4, 4),
    "lowering.ir_nodes": 34,
}
RECORDED = GOLDEN / "recorded"
CORRECTED = load_patch(ROOT / "fixtures" / "patches" / "vllm-42686-corrected")


def observe(runner, torch, name, device="h200", patch=None):
    workload = load_workloads()[name]
    case = Case(torch=torch, device=device, workload=name, patch=patch.id if patch else None)
    observation = runner.observe(case, workload, patch)
    assert observation.failure is None, observation.failure
    return observation


@pytest.mark.parametrize("device", ["h200", "cpu"])
def test_sentinel_counts(torch, runner, device):
    answer = runner.ask(torch, "sentinel", profile=load_profile(device))
    assert judge_sentinel(torch, device, answer).kind is Kind.PASS


@pytest.mark.parametrize(("patch", "known"), [(None, STACK), (CORRECTED, STACK_PATCHED)], ids=["unpatched", "patched"])
def test_residual_stack_is_as_measured_on_the_device(torch, runner, patch, known):
    facts = observe(runner, torch, "residual_stack", patch=patch).facts
    assert {name: facts[name] for name in known} == known


@pytest.mark.parametrize("patch", [None, CORRECTED], ids=["unpatched", "patched"])
@pytest.mark.parametrize("workload", sorted(path.stem.split(".")[0] for path in RECORDED.glob("*.h200.txt")))
def test_simulated_facts_equal_those_recorded_on_the_device(torch, runner, workload, patch):
    recorded = read_golden(path_of(workload, "h200", RECORDED), workload, "h200")
    case = Case(torch=torch, device="h200", workload=workload, patch=patch.id if patch else None)
    expected = expectation(recorded, case)
    assert expected.recorded
    facts = observe(runner, torch, workload, patch=patch).facts
    # A recording from before a stage was watched says nothing of that stage; a later one says all.
    older = "memory.peak" not in expected.facts
    assert ({name: facts.get(name) for name in expected.facts} if older else facts) == expected.facts


def test_environment_is_told(torch, runner):
    environment = observe(runner, torch, "pointwise").environment
    assert environment["torch"].startswith(torch)
    assert environment["device"] == "NVIDIA H200"
    assert environment["triton"][0].isdigit()
    assert "realize_reads_threshold=4" in environment["config"]


def test_cases_do_not_see_each_other(torch, runner, tmp_path):
    """The patched case runs first; the unpatched one after it is as if it had never been."""
    observe(runner, torch, "residual_stack", patch=CORRECTED)
    assert observe(runner, torch, "residual_stack").facts["loads"] == STACK["loads"]
