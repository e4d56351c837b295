"""What stands in for a device does as the device does, and a stand-in that lies is caught."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.inputs.golden import expectation, golden_path, read_golden
from patchgate.inputs.workloads import load_workloads
from patchgate.model.facts import ON_REQUEST
from patchgate.model.paths import PACKAGE
from patchgate.model.records import Case, Observation
from patchgate.model.serialization import Answer, fact_from, failure_of
from patchgate.runner.client import Runner, request_for
from patchgate.runs.fidelity import compare_sides

pytestmark = pytest.mark.alternating


WORKLOADS = load_workloads()


def ask(runner: Runner, torch: str, name: str, profile: dict[str, Any], **more: Any) -> Answer:
    return runner.ask(torch, "observe", **request_for(WORKLOADS[name], profile, None) | more)


def facts_on(runner, torch, name, device="h200", **properties):
    profile = load_profile(device)
    profile["properties"] = profile.get("properties", {}) | properties
    answer = ask(runner, torch, name, profile)
    assert failure_of(answer) is None, answer
    return {fact: fact_from(value) for fact, value in answer["facts"].items()}


def recorded_on(torch, name, device="h200"):
    golden = read_golden(golden_path(name, device), name, device)
    facts = expectation(golden, Case(torch=torch, device=device, workload=name)).facts
    return {fact: value for fact, value in facts.items() if not fact.startswith(ON_REQUEST)}


def test_both_autograd_engines_trace_the_same_graphs(torch, run):
    script = Path(__file__).with_name("backward_twice.py")
    environment = {"PYTHONPATH": str(PACKAGE.parent), "CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}
    told = subprocess.run([run.rows[torch], str(script)], env=environment, capture_output=True, text=True)
    by_torch, by_us = json.loads(told.stdout.splitlines()[-1])
    assert by_torch.keys() == {"forward", "backward"}
    assert by_us == by_torch


@pytest.mark.parametrize(
    ("name", "properties"),
    [("masked_rescaling", {"multi_processor_count": 1}), ("decoder_block", {"major": 8, "minor": 0})],
    ids=["multiprocessors", "capability"],
)
def test_a_wrong_device_shows_in_the_facts(torch, runner, name, properties):
    told = recorded_on(torch, name)
    assert facts_on(runner, torch, name) == told
    assert facts_on(runner, torch, name, **properties) != told


def test_fidelity_tells_a_stand_in_that_lies(torch, runner):
    """The same profile is the same device; one that has fewer multiprocessors than it says is not."""
    case = Case(torch=torch, device="h200", workload="masked_rescaling")
    true, again = (Observation(case=case, facts=facts_on(runner, torch, case.workload)) for _ in range(2))
    lying = Observation(case=case, facts=facts_on(runner, torch, case.workload, multi_processor_count=1))
    assert compare_sides(true, again).unlike == ()
    assert compare_sides(true, lying).unlike


@pytest.mark.parametrize(
    ("device", "dtype", "op"),
    [
        ("h200", "bfloat16", "cudnn"),
        ("a100", "bfloat16", "flash"),
        ("h200", "float32", "math"),  # fp32 with grouped heads: no fused kernel takes it
    ],
)
def test_attention_takes_the_kernel_of_the_device(torch, runner, device, dtype, op):
    answer = ask(runner, torch, "decoder_block", load_profile(device), dtype=dtype)
    taken = [name for name in answer["facts"] if name.startswith("aten.op._scaled_dot_product")]
    assert taken == ([] if op == "math" else [f"aten.op._scaled_dot_product_{op}_attention.default"])


def test_what_only_a_device_can_tell_is_not_guessed(torch, runner, tmp_path):
    """Attention with a mask: torch has rules for it that are not stood in for."""
    path = tmp_path / "workload.py"
    path.write_text(
        "import torch\n"
        "import torch.nn.functional as F\n"
        "def build(device, dtype, scale):\n"
        "    q = torch.randn(1, 1, 8, 64, device=device, dtype=dtype)\n"
        "    mask = torch.ones(8, 8, device=device, dtype=torch.bool)\n"
        "    return (lambda q, mask: F.scaled_dot_product_attention(q, q, q, mask)), (q, mask)\n"
    )
    answer = ask(runner, torch, "pointwise", load_profile("h200"), workload_path=str(path))
    needed = "needs a real device: scaled_dot_product_attention with a mask or dropout"
    assert answer["facts"] == {"compiles": {"unmeasured": needed}}


BAD_DECOMPOSITION = "torch._inductor.decomposition.select_decomp_table()[torch.ops.aten.erfinv.default] = None"


@pytest.mark.parametrize(
    ("prepare", "source", "stage"),
    [
        ("", "x + missing", "eager"),
        (BAD_DECOMPOSITION, "torch.erfinv(x)", "aot_eager_decomp_partition"),
        ("", "x + 1", "inductor"),
    ],
)
def test_a_failure_names_the_stage_of_the_compiler(torch, runner, tmp_path, prepare, source, stage):
    path = tmp_path / "workload.py"
    path.write_text(
        "import torch\n"
        "import torch._inductor.decomposition\n"
        f"{prepare}\n"
        "def build(device, dtype, scale):\n"
        f"    return (lambda x: {source}), (torch.ones(4, device=device),)\n"
    )
    request = request_for(WORKLOADS["pointwise"], load_profile("cpu"), None)
    request |= {"workload_path": str(path), "trace": str(tmp_path)}
    answer = runner.ask(torch, "failing stage", **request)
    assert answer.get("stage") == stage, answer
    assert list(tmp_path.glob("*.log")), "torch's structured trace, for tlparse"
