"""Faults that act in the code for a GPU alone are red without a GPU; a neighbour that computes the
same is green.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.kernel_faults import FAULTS, WORKLOAD
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, all_checks
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case, Colour, Verdict
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

CHECKS = all_checks()
WORKLOADS = {**load_workloads(), **load_workloads(WORKLOAD)}
# Before a merge one fault of each code.
FIRST = ("loses NaN in a maximum", "sums in bfloat16", "no store")


@pytest.fixture
def judge(torch: str, run: Run, runner: Runner, kept: Path, tmp_path: Path):
    def verdicts(
        source: str, workload: str = "odd_sizes", check: str = "generated_kernels"
    ) -> list[Verdict]:
        path = tmp_path / "patch.py"
        path.write_text(source)
        (tmp_path / "patch.toml").write_text('title = "Edits kernels"\nnumerics = "rounding"\n')
        patch = load_patch(tmp_path)
        given = replace(
            run, patch=str(tmp_path), devices=("h200",), shared_cache=str(kept / "unpatched")
        )
        asking = replace(runner, run=given, identities={torch: environment_digest(run.rows[torch])})
        context = CheckContext(given, patch, WORKLOADS, asking)
        case = Case(torch=torch, device="h200", workload=workload, patch=patch.id)
        return list(CHECKS[check].ask(context, Instance(case=case)))

    return verdicts


def faults() -> list[object]:
    return [
        pytest.param(name, id=name, marks=[] if name in FIRST else [pytest.mark.nightly])
        for name in FAULTS
    ]


@pytest.mark.parametrize("name", faults())
def test_a_fault_in_a_kernel_is_red_with_its_line(judge, name):
    red = [v for v in judge(FAULTS[name].patch(faulty=True)) if v.colour is Colour.RED]
    assert FAULTS[name].codes & {verdict.code for verdict in red}, red
    # An element that the caller reads and nobody wrote has no line; the other results name the
    # store.
    named = [verdict for verdict in red if "the caller" not in verdict.actual]
    assert named, red
    assert all("triton_" in verdict.actual and "`" in verdict.actual for verdict in named), red


@pytest.mark.parametrize("name", faults())
def test_a_sound_edit_of_the_same_place_is_green(judge, name):
    verdicts = judge(FAULTS[name].patch(faulty=False))
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}, verdicts
    assert [verdict for verdict in verdicts if "same code" not in verdict.actual]


# Edits every kernel; what it computes changes for a batch of one row alone, or not at all.
_ONE_ROW = """from torch._inductor.codegen.triton import TritonKernel

original = TritonKernel.codegen_kernel


def edited(self, *args, **kwargs):
    text = original(self, *args, **kwargs)
    factor = "FACTOR * " if "xnumel = 1\\n" in text else "1.0 * "
    return text.replace("libdevice.rsqrt(", factor + "libdevice.rsqrt(")


TritonKernel.codegen_kernel = edited
"""


@pytest.mark.parametrize(("factor", "codes"), [("1.02", {"PG507"}), ("1.0", set())])
def test_a_kernel_that_is_another_for_single_rows_is_red_with_the_device(judge, factor, codes):
    verdicts = judge(_ONE_ROW.replace("FACTOR", factor), "residual_chain", "equivalence")
    red = [verdict for verdict in verdicts if verdict.colour is Colour.RED]
    assert {verdict.code for verdict in red} == codes, verdicts
    assert all(verdict.subject == "residual_chain.h200 batch and single rows" for verdict in red)
    assert len(verdicts) == 3
