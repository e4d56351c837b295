"""Two ranks on real torch: sound patches are quiet, and a rank that fails in any way is told and
leaves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, all_checks
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Cause, Verdict
from patchgate.model.serialization import failure_of
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run
from tests.torch.conftest import running

# A replaced lowering whose second rank does what stands in its middle.
REPLACED = """import ctypes, os, subprocess, time
import torch.distributed as dist
from torch._inductor import lowering
rsqrt = lowering.aten.rsqrt.default
original = lowering.lowerings[rsqrt]
def replaced(x):
    if dist.get_rank() == 1:
        {}
    return original(x)
lowering.lowerings[rsqrt] = replaced
"""
FAILING = {
    "raise KeyError('gone')": (Cause.RAISED, "rank 1: ", 8),
    "os._exit(0)": (Cause.EXITED, "rank 1: ", None),
    "ctypes.string_at(0)": (Cause.CRASHED, "rank 1: ", 8),
    "time.sleep(3600)": (Cause.HUNG, "", 8),
}
QUIET = ("vllm-42686-corrected", pytest.param("vllm-42686", marks=pytest.mark.nightly))


@pytest.fixture
def context_of(run: Run, runner: Runner) -> Callable[..., CheckContext]:
    """Make the context that the checks of a patch share; `seconds` limits one case."""

    def make(path: Path, seconds: float = runner.run.limits.seconds) -> CheckContext:
        patched = replace(run, patch=str(path), limits=replace(run.limits, seconds=seconds))
        return CheckContext(
            patched, load_patch(path), load_workloads(), replace(runner, run=patched)
        )

    return make


@pytest.fixture
def ranks(
    torch: str, context_of: Callable[..., CheckContext]
) -> Callable[[Path, str], list[Verdict]]:
    """The verdicts of the check for a patch on a device."""

    def judged(path: Path, device: str) -> list[Verdict]:
        context = context_of(path)
        check = all_checks()["ranks"]
        case = Case(torch=torch, device=device, workload=check.workload, patch=context.patch.id)
        return list(check.ask(context, Instance(case=case)))

    return judged


@pytest.mark.parametrize("name", QUIET)
def test_a_patch_that_changes_both_forms_alike_is_quiet(ranks, name):
    verdicts = ranks(ROOT / "fixtures" / "patches" / name, "cpu")
    assert [(verdict.code, verdict.colour) for verdict in verdicts] == [("PG503", Colour.GREEN)] * 2
    assert verdicts[0].subject == "two_ranks.cpu tensor-parallel and sequence-parallel"


def test_without_two_gpus_nothing_is_guessed(ranks):
    (verdict,) = ranks(ROOT / "fixtures" / "patches" / "harmless", "cuda")
    assert (verdict.code, verdict.expected, verdict.actual) == (
        "PG906",
        "two GPUs",
        "this machine has 0",
    )


@pytest.mark.parametrize("does", FAILING)
def test_how_a_rank_ends_is_reported(torch, context_of, does, tmp_path):
    cause, signature, line = FAILING[does]
    mark = (
        f"patchgate-rank-{tmp_path}"  # the whole path: another worker has folders of the same name
    )
    path, outputs = tmp_path / "patch.py", tmp_path / "out"
    path.write_text(
        REPLACED.format(f"subprocess.Popen(['sh', '-c', 'sleep 600; : {mark}']); {does}")
    )
    context = context_of(path, seconds=10 if cause is Cause.HUNG else 60)
    answer = context.ask_building(torch, "ranks", "cpu", patch=context.patch, outputs=str(outputs))
    failure = failure_of(answer)
    assert failure.cause is cause, failure
    assert failure.signature.startswith(signature)
    assert failure.where == (f"{path}:{line}" if line else str(path)), failure.detail
    # It is killed before the answer; the kernel may take a moment to bury it.
    assert any(not running(mark) or time.sleep(0.1) for _ in range(100))
