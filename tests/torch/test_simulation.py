"""A simulated device does as the real one does, and a simulation that lies is caught."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from benchmarks.fidelity import compare_sides
from patchgate.inputs.devices import load_profile
from patchgate.inputs.golden import expectation, golden_path, read_golden
from patchgate.inputs.workloads import load_workloads
from patchgate.model.facts import ON_REQUEST
from patchgate.model.records import Case, Observation
from patchgate.model.serialization import Answer, fact_from, failure_of
from patchgate.runner.client import Runner, request_for
from tests.torch.conftest import printed_by

WORKLOADS = load_workloads()
ATTENTION = Path(__file__).with_name("recorded") / "attention.h200.txt"
KERNEL = re.compile("cudnn|flash|efficient|math")


def ask(runner: Runner, torch: str, name: str, profile: dict[str, Any], **more: Any) -> Answer:
    return runner.ask(torch, "observe", **request_for(WORKLOADS[name], profile, None) | more)


def facts_on(runner, torch, name, device="h200", **properties):
    profile = load_profile(device)
    profile["properties"] = profile.get("properties", {}) | properties
    answer = ask(runner, torch, name, profile)
    assert failure_of(answer) is None, answer
    return {fact: fact_from(value) for fact, value in answer["facts"].items()}


@pytest.fixture
def facts_of_source(torch, runner, tmp_path):
    """Facts of a workload that is given as source, on a device."""

    def facts(source: str, device: str = "h200") -> dict[str, Any]:
        path = tmp_path / "workload.py"
        path.write_text(f"import torch\n{source}")
        answer = ask(runner, torch, "pointwise", load_profile(device), workload_path=str(path))
        assert failure_of(answer) is None, answer
        taken: dict[str, Any] = answer["facts"]
        return taken

    return facts


def recorded_on(torch, name, device="h200"):
    golden = read_golden(golden_path(name, device), name, device)
    facts = expectation(golden, Case(torch=torch, device=device, workload=name)).facts
    return {fact: value for fact, value in facts.items() if not fact.startswith(ON_REQUEST)}


def attention_on(python: str, *devices: str) -> list[dict[str, dict[str, str]]]:
    """Return what attention becomes on each: {"kernels": combination -> kernel, "operators": some
    of them -> operators}.
    """
    profiles = [load_profile(device) for device in devices]
    taken: list[dict[str, dict[str, str]]] = printed_by(
        python, "attention_simulated.py", json.dumps(profiles)
    )
    return taken


def test_a_device_times_the_padding_of_equal_products_once_a_compile(torch, run):
    """Two layers of Parakeet were timed apart, and one of them was padded."""
    printed = printed_by(run.rows[torch], "paddings_timed.py")
    product = "mm:float32[4,7|7,1]:float32[7,8|8,1]:TF"
    assert printed == [None, True, {product: "padded"}, None, False, {product: "kept"}]


def test_both_autograd_engines_trace_the_same_graphs(torch, run):
    by_torch, by_us = printed_by(run.rows[torch], "backward_twice.py")
    assert by_torch.keys() == {"forward", "backward"}
    assert by_us == by_torch


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        # Before a merge the test of fidelity has this one.
        pytest.param(
            "masked_rescaling",
            {"multi_processor_count": 1},
            id="multiprocessors",
            marks=pytest.mark.nightly,
        ),
        pytest.param("decoder_block", {"major": 8, "minor": 0}, id="capability"),
    ],
)
def test_a_wrong_device_shows_in_the_facts(torch, runner, name, properties):
    told = recorded_on(torch, name)
    assert facts_on(runner, torch, name) == told
    assert facts_on(runner, torch, name, **properties) != told


def test_fidelity_tells_a_stand_in_that_lies(torch, runner):
    """The same profile is the same device; one that has fewer multiprocessors than it says is
    not.
    """
    case = Case(torch=torch, device="h200", workload="masked_rescaling")
    true, again = (
        Observation(case=case, facts=facts_on(runner, torch, case.workload)) for _ in range(2)
    )
    lying = Observation(
        case=case, facts=facts_on(runner, torch, case.workload, multi_processor_count=1)
    )
    assert compare_sides(true, again).unlike == ()
    assert compare_sides(true, lying).unlike


@pytest.mark.parametrize(
    ("device", "dtype", "op"),
    [
        # The recorded facts of the H200 name these too; fp32 with grouped heads: no fused kernel
        # takes it.
        pytest.param("h200", "bfloat16", "cudnn", marks=pytest.mark.nightly),
        pytest.param("h200", "float32", "math", marks=pytest.mark.nightly),
        ("a100", "bfloat16", "flash"),
    ],
)
def test_attention_takes_the_kernel_of_the_device(torch, runner, device, dtype, op):
    answer = ask(runner, torch, "decoder_block", load_profile(device), dtype=dtype)
    taken = [name for name in answer["facts"] if name.startswith("aten.op._scaled_dot_product")]
    assert taken == (
        [] if op == "math" else [f"aten.op._scaled_dot_product_{op}_attention.default"]
    )


def test_attention_becomes_what_it_became_on_the_device(torch, run):
    """1,200 combinations of shapes, masks, dropout, layouts and grouped heads, as an H200 took them
    on torch 2.11.0.

    On an A100 cuDNN never comes first: it does on Hopper and Blackwell only.
    """
    recorded = dict(line.split(": ") for line in ATTENTION.read_text(encoding="utf-8").splitlines())
    taken = {name: KERNEL.findall(operators)[0] for name, operators in recorded.items()}
    # From 2.12 on cuDNN takes a dropout that is a multiple of 1/16 only (pytorch#174245).
    refused = {
        name
        for name, kernel in taken.items()
        if (kernel, "dropout=0.1 " in f"{name} ") == ("cudnn", True)
    }
    refused = refused if Version(torch) >= Version("2.12") else set()
    simulated, older = attention_on(run.rows[torch], "h200", "a100")
    assert {simulated["kernels"].pop(name) for name in refused} <= {"flash", "efficient", "math"}
    assert simulated["kernels"] == {
        name: kernel for name, kernel in taken.items() if name not in refused
    }
    operators = {
        name: simulated["operators"][name] for name in simulated["operators"].keys() - refused
    }
    assert operators == {name: recorded[name] for name in operators}
    assert (len(taken), len(simulated["operators"])) == (1200, 48)
    assert set(older["kernels"].values()) == {"flash", "efficient", "math"}


def test_what_only_a_device_can_tell_is_not_guessed(torch, runner):
    """Attention on a capability for which no choice was recorded."""
    profile = load_profile("h200")
    profile["properties"] |= {"major": 7, "minor": 5}
    answer = ask(runner, torch, "decoder_block", profile)
    needed = "needs a real device: scaled_dot_product_attention on capability (7, 5)"
    assert answer["facts"] == {"compiles": {"unmeasured": needed}}


def test_a_module_is_converted_as_on_a_device(facts_of_source):
    """Weights in another dtype, moved to the device, shared by two modules: one parameter
    afterwards.
    """
    facts = facts_of_source(
        "class Tied(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.embed, self.head = torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32, "
        "bias=False)\n"
        "        self.head.weight = self.embed.weight\n"
        "        self.register_buffer('scale', torch.ones(16))\n"
        "    def forward(self, index):\n"
        "        return self.head(self.embed(index) * self.scale)\n"
        "def build(device, dtype, size):\n"
        "    model = Tied().half().to(dtype).to(device)\n"
        "    assert model.head.weight is model.embed.weight\n"
        "    assert {t.dtype for t in (*model.parameters(), *model.buffers())} == {dtype}\n"
        "    assert {t.device.type for t in (*model.parameters(), *model.buffers())} == "
        "{device.type}\n"
        "    return model, (torch.zeros(4, dtype=torch.int64, device=device),)\n"
    )
    assert facts["aten.op.embedding.default"] == 1


def test_a_convolution_in_bfloat16_is_laid_out_as_on_a_device(facts_of_source):
    """As an H200 did it (torch 2.11.0): the output stays channels last, and one kernel of two
    dimensions turns it.
    """
    facts = facts_of_source(
        "def build(device, dtype, size):\n"
        "    layers = torch.nn.Conv2d(3, 768, 16, 16), torch.nn.Flatten(2), torch.nn.GELU()\n"
        "    model = torch.nn.Sequential(*layers).to(dtype).to(device)\n"
        "    return model, (torch.zeros(2, 3, 224, 224, dtype=dtype, device=device),)\n"
    )
    assert (facts["kernels.called"], facts["kernels.grid.Grid2D"]) == (3, 3)


@pytest.mark.parametrize(("device", "op"), [("h200", "sin"), ("a100", "cos")])
def test_a_model_may_ask_for_the_device_while_it_is_traced(facts_of_source, device, op):
    facts = facts_of_source(
        "def build(device, dtype, size):\n"
        "    def model(x):\n"
        "        return x.sin() if torch.cuda.get_device_capability(x.device) >= (9, 0) else "
        "x.cos()\n"
        "    return model, (torch.zeros(8, device=device),)\n",
        device,
    )
    assert facts[f"aten.op.{op}.default"] == 1


def of_one_line(source: str) -> str:
    return (
        "def build(device, dtype, size):\n"
        f"    return (lambda x: {source}), (torch.zeros(4, 8, 8, device=device),)\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        "x[..., [-2], :] + 1",
        "x * torch.tensor(1.5, device=x.device)",
        "torch.where(x > 0, x, torch.tensor(-3.0, device=x.device))",
    ],
)
def test_a_constant_that_traced_code_makes_is_on_the_device(facts_of_source, source):
    """As on the CPU, where it is where the code runs."""
    sides = [facts_of_source(of_one_line(source), device) for device in ("h200", "cpu")]
    operations = [{k: v for k, v in side.items() if k.startswith("aten.")} for side in sides]
    assert operations[0] == operations[1]
    assert operations[0]["aten.op.full.default"] == 1


def test_a_constant_that_traced_code_moves_was_on_the_host(facts_of_source):
    facts = facts_of_source(of_one_line("x * torch.tensor(1.5).to(x.device)"))
    assert facts["aten.op.lift_fresh_copy.default"] == 1


def drawn(source: str) -> str:
    return (
        "def build(device, dtype, size):\n"
        f"    number = ({source}).item()\n"
        "    return (lambda x: x.sin() if number < 0.6 else x.cos()), "
        "(torch.zeros(8, device=device),)\n"
    )


@pytest.mark.parametrize(("source", "op"), [("torch.rand([])", "sin"), ("torch.rand(2)[1]", "cos")])
def test_random_numbers_of_the_host_are_drawn(facts_of_source, source, op):
    """After a seed of 0 they are 0.50 and 0.77: no layer's dropout is decided otherwise."""
    assert facts_of_source(drawn(source))[f"aten.op.{op}.default"] == 1


@pytest.mark.parametrize(
    "source", ["torch.rand([], device=device)", "torch.rand(1 << 17)[0] + torch.rand([])"]
)
def test_random_numbers_that_were_not_drawn_are_not_guessed(torch, runner, tmp_path, source):
    path = tmp_path / "workload.py"
    path.write_text(f"import torch\n{drawn(source)}")
    answer = ask(runner, torch, "pointwise", load_profile("h200"), workload_path=str(path))
    assert "DataDependentOutputException" in failure_of(answer).signature


BAD_DECOMPOSITION = (
    "torch._inductor.decomposition.select_decomp_table()[torch.ops.aten.erfinv.default] = None"
)


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


def test_a_workload_that_cannot_be_made_fails_before_any_stage_of_the_compiler(
    torch, runner, tmp_path
):
    path = tmp_path / "workload.py"
    path.write_text("def build(device, dtype, scale):\n    raise KeyError(dtype)\n")
    request = request_for(WORKLOADS["pointwise"], load_profile("cpu"), None)
    request |= {"workload_path": str(path), "trace": str(tmp_path)}
    assert runner.ask(torch, "failing stage", **request).get("stage") == "build"
