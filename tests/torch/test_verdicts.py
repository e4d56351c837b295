"""Every fixture below fixtures/verdicts is named for the code that it causes, and causes no other red one."""

import importlib.util
from dataclasses import replace

import pytest
from patchgate.checks.judge.reach import judge_holders, judge_hooks

from patchgate.checks.context import Trial
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT, SUITE
from patchgate.model.records import Colour
from patchgate.runner.run import Limits

# Times are never asserted on a machine that others use: test_timing and the judge's own tests show PG61x.
VERDICTS = sorted(p for p in (ROOT / "fixtures" / "verdicts").glob("*.py") if not p.name.startswith("PG61"))
HARMLESS = ROOT / "fixtures" / "patches" / "harmless"
WORKLOAD = "pointwise"
CHAIN = "residual_chain"
# Patches of ReLU change the code of the first, #42686 that of the second.
CACHED = (WORKLOAD, CHAIN)
GREEN = ("PG211", "PG511", "PG705", "PG708")
# What a fixture needs to be seen on, where it is not the workload above.
ON = {
    "PG501-only-in-half": "prenorm_mlp_float16",
    "PG502-worse-gradients": "prenorm_mlp_training",
    "PG507-looks-for-attention": "opaque_attention",
}


def cells(name):
    """The functions of one file of the suite."""
    spec = importlib.util.spec_from_file_location(f"suite_{name}", SUITE / f"test_{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judged(code, torch, trial, folder, workload=WORKLOAD):
    """The verdicts of the check that a code belongs to."""
    patch, symptom, family = trial.patch, trial.patch.claims.symptom, code[2]
    if code == "PG507":
        return consistent(torch, patch, trial, folder, workload)
    if code == "PG510":
        return cells("tokens").sampled(torch, "cpu", patch, trial, folder)
    if code.startswith("PG41"):
        return cells("recompile").recompiled(torch, "prenorm_mlp", patch, trial)
    if family == "1":
        return list(cells("surface").inspected(torch, patch, trial))
    if family == "2":
        shown = [cells("gate").shown(torch, symptom, patch, trial)] if symptom else []
        outside = cells("gate").outside(torch, patch, trial, [(CHAIN, "cpu")]) if patch.claims.scope else []
        return [*cells("gate").applied(torch, patch, trial), *shown, *outside]
    if code.startswith("PG42"):
        return list(trial.facts("shapes", torch, "cpu", f"{WORKLOAD}_shapes"))
    if code.startswith("PG43"):
        return list(trial.facts("options", torch, "cpu", "options"))
    if family == "5":
        return cells("parity").compared(torch, "cpu", workload, patch, trial, folder)
    if code.startswith("PG62"):
        return trial.modelled(torch, "h200", WORKLOAD)
    if family == "6":
        return [cells("compile").counted(torch, CHAIN, patch, trial)]
    if code in ("PG707", "PG708"):
        return cells("cache").built(torch, CHAIN, patch, trial, folder)
    if family == "7":
        return [v for name in CACHED for v in cells("cache").shared(torch, name, patch, trial, folder / name)]
    if family == "8":
        return reach(code, torch, patch, trial)
    return list(trial.facts({"3": "kernels", "4": "graph"}[family], torch, "h200", WORKLOAD))


def consistent(torch, patch, trial, folder, workload):
    forms, ranks = folder / "forms", folder / "ranks"
    forms.mkdir()
    ranks.mkdir()
    verdicts = cells("consistency").compared(torch, "cpu", workload, patch, trial, forms)
    return [*verdicts, *cells("ranks").compared(torch, "cpu", patch, trial, ranks)]


def reach(code, torch, patch, trial):
    if code == "PG803":
        return list(cells("reach").called(torch, patch, trial, [(WORKLOAD, "h200")]))
    if code == "PG804":
        return list(judge_hooks(torch, patch, *trial.hooks(torch)))
    return list(judge_holders(torch, patch, trial.apply(torch, version=torch)))


@pytest.fixture
def on_trial(run, runner):
    def make(path, seconds=60.0, nightly=False):
        patch = load_patch(path)
        # At night also inputs of one row and of none.
        limited = replace(runner, limits=Limits(seconds=seconds, bytes=runner.limits.bytes), nightly=nightly)
        return Trial(replace(run, patch=str(path)), patch, load_workloads(), limited)

    return make


@pytest.mark.parametrize("path", VERDICTS, ids=lambda path: path.stem)
def test_fixture_causes_the_verdict_that_it_is_named_for(torch, path, on_trial, tmp_path):
    code = path.name[:5]
    trial = on_trial(path, seconds=5.0 if "hangs" in path.name else 60.0, nightly=code == "PG506")
    verdicts = judged(code, torch, trial, tmp_path, ON.get(path.stem, WORKLOAD))
    red = {verdict.code for verdict in verdicts if verdict.colour is Colour.RED}
    assert red == (set() if code in GREEN else {code}), [v for v in verdicts if v.colour is Colour.RED]
    assert code in {verdict.code for verdict in verdicts}


CELLS = (
    "PG101",
    "PG201",
    "PG301",
    "PG401",
    "PG411",
    "PG421",
    "PG431",
    "PG501",
    "PG507",
    "PG510",
    "PG601",
    "PG621",
    "PG701",
    "PG801",
    "PG804",
)


@pytest.mark.parametrize("code", CELLS)
def test_harmless_patch_is_all_green(torch, code, on_trial, tmp_path):
    verdicts = judged(code, torch, on_trial(HARMLESS), tmp_path)
    assert verdicts
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}


@pytest.mark.parametrize("workload", [WORKLOAD, "prenorm_mlp_float16", "prenorm_mlp_training"])
def test_harmless_patch_keeps_all_numbers(torch, workload, on_trial, tmp_path):
    verdicts = judged("PG501", torch, on_trial(HARMLESS, nightly=True), tmp_path, workload)
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}
    assert [v for v in verdicts if "gradients" in v.subject] or "training" not in workload
    assert [v for v in verdicts if v.subject.endswith("small inputs")]


def test_harmless_patch_keeps_attention_opaque_eager_or_open_as_equal_as_it_was(torch, on_trial, tmp_path):
    verdicts = judged("PG507", torch, on_trial(HARMLESS), tmp_path, "opaque_attention")
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}
    subjects = {verdict.subject.partition(" ")[2] for verdict in verdicts}
    assert {"opaque and eager attention", "opaque and open attention", "whole graph and pieces"} <= subjects
