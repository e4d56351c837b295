"""A public model is built from its file, and gives in simulation the facts that it gave on an
H200 and an H100.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from patchgate.inputs.devices import padding_of
from patchgate.inputs.golden import expectation, golden_path, read_golden
from patchgate.inputs.manifest import Patch
from patchgate.inputs.models import load_model, model_names, model_path, model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.model.facts import value_in
from patchgate.model.paths import DEVICES, GOLDEN, ROOT
from patchgate.model.records import Case, Observation, Unmeasured
from patchgate.runner.client import Runner
from tests.torch.conftest import ROWS

# A library of our own, which a project has on its path: it reads numbers off tensors, to build
# layers and to call them.
LIBRARY = """
import torch
class NetConfig:
    def __init__(self, layers, width, words="bfloat16"):
        self.layers, self.width, self.words = layers, width, getattr(torch, words)
class Block(torch.nn.Module):
    def __init__(self, width, share):
        super().__init__()
        self.inner, self.share = torch.nn.Linear(width, width), share
    def forward(self, hidden, scale=None):
        return hidden + self.share * torch.relu(self.inner(hidden)) * scale
class Net(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        shares = [each.item() for each in torch.linspace(0.5, 1.0, config.layers) * 2]
        assert shares[0] == 1.0, shares
        self.words = torch.nn.Embedding(32, config.width)
        torch.nn.init.trunc_normal_(self.words.weight)  # torch 2.12 draws until all numbers lie in a range
        self.dtype = config.words
        self.layers = torch.nn.ModuleList(Block(config.width, share) for share in shares)
    def forward(self, tokens):
        if not torch.compiler.is_compiling():  # as libraries do, before they leave out a mask
            assert not isinstance(tokens, getattr(torch, "_subclasses").FakeTensor)
            assert (tokens == 0).all()
        hidden = self.words(tokens).flatten(0, 1).to(self.dtype)
        for layer in self.layers:
            hidden = layer(hidden, scale=hidden.mean())
        return (hidden,)
"""
MODEL = """
library = "tiny_library"
requires = ["tiny-library>=1,<2"]
class = "Net"
config_class = "NetConfig"
source = "https://example.org"
dtype = "bfloat16"
inputs.tokens = { shape = [4, 64], dtype = "int64" }
[config]
layers = 2
width = 64
"""
REGION = '[[regions]]\nmodule = "layers.1"\ncount = 2\n'
# As merged, and the same in the form that applies on other releases too: recorded where the first
# does not apply.
MERGED, CORRECTED = (
    load_patch(ROOT / "fixtures" / "patches" / name)
    for name in ("vllm-42686", "vllm-42686-corrected")
)
RECORDED_ON = "3.12."  # Python
# With the same torch and the same sources Python 3.11 has two closures more in ResNet-50, and one
# constant in Bamba.
OF_A_PYTHON = {"dynamo.guard.CLOSURE_MATCH", "dynamo.guard.CONSTANT_MATCH"}
WORKLOADS = {
    name: workload for model in model_names() for name, workload in model_workloads([model]).items()
}
# Models on a device, without a patch or with one.
RECORDED = [
    pytest.param(name, device, patch, id=f"{name}-{device}-{patch.id if patch else 'unpatched'}")
    for name in WORKLOADS
    for device, patch in (
        ("h200", None),
        ("h200", MERGED),
        ("h200", CORRECTED),
        ("h100", None),
    )
    if golden_path(name, device, GOLDEN / "recorded").is_file()
]


@pytest.fixture
def observed(torch: str, runner: Runner, tmp_path: Path) -> Callable[..., Observation]:
    """Observe a model of a project's own library, on an H200 that pads one more product."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "tiny_library.py").write_text(LIBRARY)

    def observe(text: str, padded: str = "") -> Observation:
        (tmp_path / "tiny.toml").write_text(text)
        profile = (DEVICES / "h200.toml").read_text() + (
            f'"{padded}" = "padded"\n' if padded else ""
        )
        (tmp_path / "own.toml").write_text(profile)
        project = Project(
            root=str(tmp_path), path=("library",), models=("tiny.toml",), devices=("own.toml",)
        )
        (workload,) = model_workloads(project.models, tmp_path).values()
        own = replace(
            runner,
            run=replace(
                runner.run, project=project, folder=str(tmp_path / str(len(text + padded)))
            ),
        )
        return own.observe(Case(torch=torch, device="own", workload="tiny"), workload, None)

    return observe


def test_a_model_is_built_whole_or_a_layer_of_it(observed: Callable[..., Observation]) -> None:
    whole, layer = observed(MODEL), observed(MODEL.replace("[config]", f"{REGION}[config]"))
    assert whole.failure is None, whole.failure
    assert layer.failure is None, layer.failure
    assert (whole.facts["aten.op.addmm.default"], layer.facts["aten.op.addmm.default"]) == (2, 1)
    assert "aten.op.embedding.default" in whole.facts.keys() - layer.facts.keys()


def test_a_product_of_two_dtypes_is_refused_as_by_a_device(
    observed: Callable[..., Observation],
) -> None:
    """TimesFM in bfloat16 was simulated, and raised on an H200."""
    mixed = f'{MODEL.replace("[config]", f"{REGION}[config]")}words = "float64"\n'
    failure = observed(mixed).failure
    assert failure is not None
    assert (failure.stage, "must have the same dtype" in failure.signature) == ("build", True)


def test_a_product_whose_padding_is_timed_is_as_the_profile_says_or_named(
    observed: Callable[..., Observation],
) -> None:
    narrow = MODEL.replace("width = 64", "width = 63")
    missing = observed(narrow).facts["compiles"]
    assert isinstance(missing, Unmeasured)
    told, _, product = missing.reason.rpartition(" ")
    assert told == "needs a real device: it times whether to pad"
    assert product.startswith("addmm:bfloat16[256,63|63,1]:bfloat16[63,63|1,63]:bfloat16[63|1,]:")
    facts = observed(narrow, padded=product).facts
    assert facts[f"padding.{product}"] == "padded"
    assert "aten.op.constant_pad_nd.default" in facts or "aten.op.cat.default" in facts


@cache
def has_libraries(python: str) -> bool:
    """True if the interpreter has the libraries that the models are built with."""
    names = sorted({load_model(model_path(name)).library for name in model_names()})
    script = (
        "import importlib.util as u, json; print(json.dumps(all(u.find_spec(name) for name "
        f"in {names!r})))"
    )
    return bool(
        json.loads(subprocess.run([python, "-c", script], capture_output=True, check=True).stdout)
    )


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "device", "patch"), RECORDED)
def test_a_simulated_model_has_the_facts_of_the_device(
    torch: str, runner: Runner, tmp_path: Path, name: str, device: str, patch: Patch | None
) -> None:
    if not has_libraries(ROWS[torch]):
        pytest.skip("the environment of this row has not what the models require")
    if patch is CORRECTED and torch in SpecifierSet(MERGED.claims.applies_to or ""):
        pytest.skip("recorded is the form as merged, which does the same here")
    case = Case(torch=torch, device=device, workload=name, patch=patch.id if patch else None)
    expected = expectation(
        read_golden(golden_path(name, device, GOLDEN / "recorded"), name, device), case
    )
    if not expected.recorded:
        pytest.skip(f"nothing was recorded on {device} with torch {torch}")
    # The padding of a product is decided by a timing, and not always the same: it is as the device
    # decided then.
    run = replace(runner.run, folder=str(tmp_path / "run"), padding=padding_of(expected.facts))
    observation = replace(runner, run=run).observe(case, WORKLOADS[name], patch)
    assert observation.failure is None, observation.failure
    facts = {*observation.facts, *expected.facts}
    # Kernels are compiled for them; `benchmarks.fidelity` compares these facts on a device.
    facts = {fact for fact in facts if not fact.startswith("resources.")}
    if not observation.environment["python"].startswith(RECORDED_ON):
        facts -= OF_A_PYTHON
    sides = {
        fact: (value_in(observation.facts, fact), value_in(expected.facts, fact)) for fact in facts
    }
    assert {fact: values for fact, values in sides.items() if values[0] != values[1]} == {}
