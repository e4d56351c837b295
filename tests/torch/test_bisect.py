"""A search and a diff on real torch."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchgate.cli.bisect import bisect
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import ROOT
from patchgate.model.records import Case
from patchgate.runner.cache_keys import read_environment

FIVE = Path(__file__).parent / "five_targets.py"
CASCADE = "residual_stack.h200.loads.max > 4"
UPSTREAM = ROOT / "fixtures" / "patches" / "pytorch-176994" / "patch.diff"
# A lowering of its own, which from some commit on is not as exact as torch's.
STEP = '''"""Step {step}."""

import torch
from torch._inductor import lowering

silu = torch.ops.aten.relu.default
original = lowering.lowerings[silu]


def relu(x):
    return {returned}


lowering.lowerings[silu] = relu
'''


def git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(folder, title):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", title)


def search(folder, *arguments):
    return (
        CliRunner()
        .invoke(bisect, [*arguments, "--folder", str(folder)], catch_exceptions=False)
        .output
    )


@pytest.fixture
def row(torch, run):
    """How a command is told of the row."""
    return f"{torch}={run.rows[torch]}"


@pytest.mark.nightly  # a minute and more
def test_two_of_five_targets_that_do_it_together_are_named(row, tmp_path):
    lines = search(tmp_path, "--fact", CASCADE, "--targets", "--row", row, str(FIVE)).splitlines()
    start = lines.index(f"2 of 5 targets together turn `{CASCADE}`:")
    assert lines[start + 1 : start + 3] == [
        "  torch._inductor.ir.StorageBox.patchgate_many",
        "  torch._inductor.ir.StorageBox.should_realize_on_reuse",
    ]


def test_of_eight_commits_the_one_that_broke_parity_is_named_in_five_asks(row, tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    for step in range(8):
        returned = "lowering.mul(original(x), 1 + 2**-23)" if step > 4 else "original(x)"
        (repository / "patch.py").write_text(STEP.format(step=step, returned=returned))
        commit(repository, f"step {step}")
    question = ["--metric", "pointwise.differing > 0", "--commits", "HEAD~7..HEAD"]
    told = search(tmp_path / "asked", *question, "--row", row, str(repository / "patch.py"))
    named = git(repository, "log", "-1", "--format=%h", "HEAD~2").strip()
    assert f"first commit in which `pointwise.differing > 0` holds: {named} step 5\n" in told
    assert "  asked 5 of 8\n" in told


@pytest.mark.nightly  # a minute and more
def test_the_commit_of_torch_is_named_and_the_installed_torch_stays(row, torch, run, tmp_path):
    home, checkout = Path(read_environment(run.rows[torch])["home"]), tmp_path / "checkout"
    ir = checkout / "torch" / "_inductor" / "ir.py"
    before = (home / "torch" / "_inductor" / "ir.py").read_text()
    ir.parent.mkdir(parents=True)
    git(checkout, "init", "-q")
    for step in range(5):
        ir.write_text(before if step == 0 else f"{ir.read_text()}# Step {step}.\n")
        if step == 2:  # no Python source of torch, so no answer of this commit's
            git(checkout, "checkout", "--", ".")
            (checkout / "README").write_text("read me")
        if step == 3:
            git(checkout, "apply", str(UPSTREAM))
        commit(checkout, f"step {step}")
    question = [
        "--fact",
        CASCADE,
        "--about",
        "torch._inductor.ir.StorageBox.should_realize_on_reuse",
    ]
    there = ["--upstream", "HEAD~4..HEAD", "--checkout", str(checkout), "--row", row]
    told = search(tmp_path / "asked", *question, *there)
    named = git(checkout, "log", "-1", "--format=%h", "HEAD~1").strip()
    assert f"first commit of torch in which `{CASCADE}` no longer holds: {named} step 3\n" in told
    assert "  asked 4 of 4; " in told
    assert (
        "torch's API around it:\n  torch._inductor.ir\n    ~ StorageBox.should_realize_on_reuse: "
        "body\n"
    ) in told
    assert "sources that changed:\n  torch/_inductor/ir.py |" in told
    assert (home / "torch" / "_inductor" / "ir.py").read_text() == before
    (again,) = {
        line.split(" --torch ")[0]
        for line in told.splitlines()
        if line.startswith("  patchgate ask ")
    }
    assert f"--checkout {checkout}" in again and f"--row {row}" in again


def test_a_diff_of_torch_changes_the_kernels_and_leaves_the_files(torch, run, runner, tmp_path):
    patch = load_patch(ROOT / "fixtures" / "patches" / "pytorch-176994")
    before = read_environment.__wrapped__(run.rows[torch])["sources"]
    case = Case(torch=torch, device="h200", workload="residual_stack", patch=patch.id)
    observation = runner.observe(case, load_workloads()["residual_stack"], patch)
    assert (observation.failure, observation.facts["loads"]) == (None, (2, 1, 3, 4, 4, 4))
    assert read_environment.__wrapped__(run.rows[torch])["sources"] == before
