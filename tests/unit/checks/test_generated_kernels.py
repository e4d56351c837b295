"""Faults of kernels -> PG516; the devices whose code is run."""

from __future__ import annotations

from dataclasses import replace

from patchgate.checks.framework.find_checks import all_checks
from patchgate.checks.generated_kernels import judge_memory, simulated_devices
from patchgate.model.policy import Colour
from patchgate.model.records import Case
from patchgate.runner.run_settings import Run

CASE = Case(torch="2.11.0", device="h200", workload="w", patch="mine")
FAULT = {
    "kind": "outside",
    "kernel": "triton_poi_0",
    "line": "tl.store(out_ptr0 + (x0), tmp0, None)",
}
RUN = Run(folder="", patch="", rows={}, devices=("cpu", "a100", "h200"))


def test_faults_are_red_with_the_kernel_and_its_line():
    (verdict,) = judge_memory(CASE, [FAULT | {"what": "stores 3 elements outside"}] * 5)
    assert (verdict.code, verdict.colour) == ("PG516", Colour.RED)
    place = "triton_poi_0 stores 3 elements outside: `tl.store(out_ptr0 + (x0), tmp0, None)`"
    assert verdict.actual == "; ".join([place] * 3)


def test_where_there_is_no_fault_nothing_is_said():
    assert not [*judge_memory(CASE, [])]


def test_one_simulated_gpu_is_judged_before_a_merge_and_all_at_night():
    assert simulated_devices(RUN) == ["a100"]
    assert simulated_devices(replace(RUN, nightly=True)) == ["a100", "h200"]


def test_a_real_gpu_is_judged_by_its_profile_where_no_simulated_one_is():
    devices = all_checks()["generated_kernels"].devices
    assert devices(replace(RUN, devices=("cpu", "cuda"))) == ["cuda"]
    assert devices(replace(RUN, devices=("cuda", "h200"))) == ["h200"]
    assert devices(replace(RUN, devices=("cpu",))) == []
