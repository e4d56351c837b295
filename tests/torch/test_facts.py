"""Simulated GPUs give the facts of the real ones, and the counters count."""

from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.checks.machine import judge_sentinel
from patchgate.inputs.devices import load_profile
from patchgate.inputs.golden import expectation, golden_path, read_golden
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.facts import not_requested, value_in
from patchgate.model.paths import GOLDEN, ROOT
from patchgate.model.policy import Kind
from patchgate.model.records import Case

# Measured: the same on the real device and in simulation.
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
# The form that was on the device: the original applies to this release alone.
PATCHED = {"2.11.0": load_patch(ROOT / "fixtures" / "patches" / "vllm-42686")}


def recording(workload, device="h200"):
    return golden_path(workload, device, RECORDED)


def simulated(device):
    """Workloads on record; autotuned kernels are too, and no simulation claims to know them."""
    return [
        name
        for name, workload in load_workloads().items()
        if not workload.needs_device and recording(name, device).is_file()
    ]


SIMULATED = simulated("h200")


# Before a merge each workload in one form, and each other form (a dtype, training, dynamic shapes)
# of one workload.
FIRST = {
    name.removeprefix(Path(load_workloads()[name].path).stem) or name: name
    for name in reversed(SIMULATED)
}
# Their kernels are compiled for the device before a merge too; those of all at night.
COMPILED = ("cross_entropy", "prenorm_mlp")
# The changes that a patch makes in them are compared before a merge too.
PATCHED_BEFORE_A_MERGE = ("decoder_block", "fp32_residual_training", "prenorm_mlp")


def nightly_but(names, first):
    return [
        pytest.param(name, marks=[] if name in first else [pytest.mark.nightly]) for name in names
    ]


def recorded(torch, workload, patch=None, device="h200"):
    case = Case(torch=torch, device=device, workload=workload, patch=patch.id if patch else None)
    expected = expectation(read_golden(recording(workload, device), workload, device), case)
    if device != "h200" and not expected.recorded:
        pytest.skip(f"nothing is recorded on {device} with torch {torch}")
    assert expected.recorded
    return expected


def differing(observed, expected):
    """Facts that are not the same: an operation that is not there and none of it are one thing."""
    names = {*observed.facts, *expected.facts} - {"resources.occupancy"}  # which no device tells
    names -= not_requested(names, observed.facts)
    told = {
        name: (value_in(observed.facts, name), value_in(expected.facts, name)) for name in names
    }
    return {name: values for name, values in told.items() if values[0] != values[1]}


def observe(runner, torch, name, device="h200", patch=None):
    workload = load_workloads()[name]
    case = Case(torch=torch, device=device, workload=name, patch=patch.id if patch else None)
    observation = runner.observe(case, workload, patch)
    assert observation.failure is None, observation.failure
    return observation


@pytest.mark.parametrize("device", ["h200", "cpu"])
def test_sentinel_counts(torch, runner, device):
    answer = runner.ask(torch, "sentinel", profile=load_profile(device))
    assert (
        judge_sentinel(Case(torch=torch, device=device, workload="sentinel"), answer).kind
        is Kind.PASS
    )


@pytest.mark.parametrize(
    ("patch", "known"),
    [
        # All facts of this side are compared with the recorded ones too.
        pytest.param(None, STACK, id="unpatched", marks=pytest.mark.nightly),
        pytest.param(CORRECTED, STACK_PATCHED, id="patched"),
    ],
)
def test_residual_stack_is_as_measured_on_the_device(torch, runner, patch, known):
    facts = observe(runner, torch, "residual_stack", patch=patch).facts
    assert {name: facts[name] for name in known} == known


@pytest.mark.parametrize("workload", nightly_but(SIMULATED, {*FIRST.values()} - {*COMPILED}))
def test_simulated_facts_equal_those_recorded_on_the_device(torch, runner, workload):
    assert differing(observe(runner, torch, workload), recorded(torch, workload)) == {}


@pytest.mark.parametrize("workload", nightly_but(SIMULATED, COMPILED))
def test_kernels_compiled_here_take_what_those_of_the_device_took(torch, runner, workload):
    observed = observe(replace(runner, run=replace(runner.run, nightly=True)), torch, workload)
    assert "resources.registers" in observed.facts
    assert differing(observed, recorded(torch, workload)) == {}


@pytest.mark.parametrize("workload", nightly_but(simulated("h100"), COMPILED))
def test_the_facts_of_an_h100_are_those_recorded_on_it(torch, runner, workload):
    expected = recorded(torch, workload, device="h100")
    at_night = replace(runner, run=replace(runner.run, nightly=True))
    assert differing(observe(at_night, torch, workload, "h100"), expected) == {}


@pytest.mark.parametrize(
    "workload",
    nightly_but(
        [n for n in SIMULATED if "[vllm" in recording(n).read_text("utf-8")], PATCHED_BEFORE_A_MERGE
    ),
)
def test_a_patch_changes_them_in_simulation_as_it_did_on_the_device(torch, runner, workload):
    patch = PATCHED.get(torch, CORRECTED)
    assert (
        differing(observe(runner, torch, workload, patch=patch), recorded(torch, workload, patch))
        == {}
    )


def test_environment_is_reported(torch, runner):
    environment = observe(runner, torch, "pointwise").environment
    assert environment["torch"].startswith(torch)
    assert environment["device"] == "NVIDIA H200"
    assert environment["triton"][0].isdigit()
    assert "realize_reads_threshold=4" in environment["config"]


def test_cases_do_not_see_each_other(torch, runner, tmp_path):
    """The patched case runs first; the unpatched one after it is as if it had never been."""
    observe(runner, torch, "residual_stack", patch=CORRECTED)
    assert observe(runner, torch, "residual_stack").facts["loads"] == STACK["loads"]


@pytest.mark.parametrize(
    ("name", "workload"),
    [("tabpfn-probe-fixed", "prenorm_mlp"), ("aiter-arch-fixed", "residual_stack")],
)
def test_the_own_defaults_of_what_stands_for_an_operator_are_not_counted_as_guards(
    torch, runner, name, workload
):
    def guards(patch):
        facts = observe(runner, torch, workload, "cpu", patch).facts
        return sum(count for fact, count in facts.items() if fact.startswith("dynamo.guard."))

    assert guards(load_patch(ROOT / "fixtures" / "patches" / name)) == guards(None)
