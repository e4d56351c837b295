"""Faults that act in the code for a GPU alone are red without a GPU; a neighbour that computes the
same is green.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, all_checks
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case, Colour, Verdict
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

CHECK = all_checks()["generated_kernels"]
WORKLOADS = load_workloads(Path(__file__).with_name("interpreted"))
# Edits the text of every kernel for the GPU.
PATCH = """
import re
from torch._inductor.codegen.triton import TritonKernel

original = TritonKernel.codegen_kernel


def edited(self, *args, **kwargs):
    return re.sub({pattern!r}, {replacement!r}, original(self, *args, **kwargs))


TritonKernel.codegen_kernel = edited
"""
NUMBERS = {"PG502", "PG505"}
# What is edited -> the fault, a sound edit of the same place, and the codes of which the fault has
# one.
EDITS = {
    "loses NaN in a maximum": (
        r"triton_helpers\.maximum\((\w+), (\w+)\)",
        r"tl.maximum(\1, \2)",
        r"tl.maximum(\1, \2, tl.PropagateNan.ALL)",
        {"PG506"},
    ),
    "mask too wide": (r"(xmask = xindex) < xnumel", r"\1 <= xnumel", r"\1 <= xnumel - 1", {"PG516"}),
    "no bounds check": (
        r"(tl\.store\(.*), xmask\)",
        r"\1, None)",
        r"\1, xmask & (xindex < xnumel))",
        {"PG516"},
    ),
    "loads the next element": (r"(tl\.load\(in_ptr0 \+ \()r0_1", r"\g<1>1 + r0_1", r"\g<1>0 + r0_1", {"PG516"}),
    "another value beside the mask": (r"(tl\.full\(tmp\d+\.shape, 0)\.0", r"\1.5", r"\1.00", NUMBERS),
    "sums in bfloat16": (
        r"tl\.sum\((\w+), 1\)",
        r"tl.sum(\1.to(tl.bfloat16), 1)",
        r"tl.sum(\1.to(tl.float32), 1)",
        NUMBERS,
    ),
    "no store": (r"(\n +tl\.store\(.*)", "", r"\1\1", {"PG516"}),
    "sum that begins at 1": (r"(tl\.where\(r0_mask & xmask, \w+), 0\)", r"\1, 1)", r"\1, 0.0)", NUMBERS),
    "two programs store to one place": (
        r"(tl\.store\(out_ptr\d \+ \(x\d)\)",
        r"\1 // 2)",
        r"\1 // 1)",
        {"PG516"},
    ),
    "another stride in a store": (
        r"(tl\.store\(out_ptr\d \+ \()(r0_1) \+ (\d+)\*x0\)",
        r"\1\2 + (\3 - 1)*x0)",
        r"\1\3*x0 + \2)",
        {"PG516"},
    ),
}  # fmt: skip
# Before a merge one fault of each code.
FIRST = ("loses NaN in a maximum", "sums in bfloat16", "no store")


@pytest.fixture
def judge(torch: str, run: Run, runner: Runner, kept: Path, tmp_path: Path):
    def verdicts(pattern: str, replacement: str) -> list[Verdict]:
        path = tmp_path / "patch.py"
        path.write_text(PATCH.format(pattern=pattern, replacement=replacement))
        (tmp_path / "patch.toml").write_text('title = "Edits kernels"\nnumerics = "rounding"\n')
        patch = load_patch(tmp_path)
        given = replace(
            run, patch=str(tmp_path), devices=("h200",), shared_cache=str(kept / "unpatched")
        )
        asking = replace(runner, run=given, identities={torch: environment_digest(run.rows[torch])})
        context = CheckContext(given, patch, WORKLOADS, asking)
        case = Case(torch=torch, device="h200", workload="odd_sizes", patch=patch.id)
        return list(CHECK.ask(context, Instance(case=case)))

    return verdicts


def edits() -> list[object]:
    return [
        pytest.param(name, id=name, marks=[] if name in FIRST else [pytest.mark.nightly])
        for name in EDITS
    ]


@pytest.mark.parametrize("name", edits())
def test_a_fault_in_a_kernel_is_red(judge, name):
    pattern, fault, _, codes = EDITS[name]
    red = [verdict for verdict in judge(pattern, fault) if verdict.colour is Colour.RED]
    assert codes & {verdict.code for verdict in red}, red


@pytest.mark.parametrize("name", edits())
def test_a_sound_edit_of_the_same_place_is_green(judge, name):
    pattern, _, sound, _ = EDITS[name]
    verdicts = judge(pattern, sound)
    assert {verdict.colour for verdict in verdicts} == {Colour.GREEN}, verdicts
    assert [verdict for verdict in verdicts if "same code" not in verdict.actual]
