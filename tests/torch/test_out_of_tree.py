"""A device that a project brings in a file of its own is observed like any other."""

from pathlib import Path

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.serialization import failure_of
from patchgate.runner.client import request_for

TOY = """
name = "toy"
kind = "plugin"
backend = "toy"
source = "tests/torch/toy_device.py"
plugin = "{plugin}"
"""


def test_a_private_device_is_observed_through_its_plugin(torch, runner, tmp_path):
    plugin = Path(__file__).with_name("toy_device.py")
    (tmp_path / "toy.toml").write_text(TOY.format(plugin=plugin))
    profile = load_profile("toy", {"toy": str(tmp_path / "toy.toml")})
    workload = load_workloads()["pointwise"]
    answer = runner.ask(torch, "observe", **request_for(workload, profile, None))
    assert failure_of(answer) is None, answer
    assert "# generated for toy" in answer["code"][0]
    facts = answer["facts"]
    assert (facts["kernels.called"], facts["dynamo.graphs"], facts["bytes.total"]) == (1, 1, 3 * 4 * 4096**2)
