"""A search and a diff on real torch."""

from pathlib import Path

from click.testing import CliRunner

from patchgate.bisect_command import bisect
from patchgate.identity import read_environment
from patchgate.matrix import load_workloads
from patchgate.model import Case
from patchgate.patches import load_patch
from patchgate.project import ROOT

FIVE = Path(__file__).parent / "five_targets.py"


def test_two_of_five_targets_that_do_it_together_are_named(torch, run, tmp_path):
    row = f"{torch}={run.rows[torch]}"
    question = ["--fact", "residual_stack.h200.loads.max > 4", "--targets", "--row", row]
    told = CliRunner().invoke(bisect, [*question, "--folder", str(tmp_path), str(FIVE)], catch_exceptions=False)
    lines = told.output.splitlines()
    start = lines.index("2 of 5 targets together turn `residual_stack.h200.loads.max > 4`:")
    assert lines[start + 1 : start + 3] == [
        "  torch._inductor.ir.StorageBox.patchgate_many",
        "  torch._inductor.ir.StorageBox.should_realize_on_reuse",
    ]


def test_a_diff_of_torch_changes_the_kernels_and_leaves_the_files(torch, run, runner, tmp_path):
    patch = load_patch(ROOT / "fixtures" / "patches" / "pytorch-176994")
    before = read_environment.__wrapped__(run.rows[torch])["sources"]
    case = Case(torch=torch, device="h200", workload="residual_stack", patch=patch.id)
    observation = runner.observe(case, load_workloads()["residual_stack"], patch)
    assert (observation.failure, observation.facts["loads"]) == (None, (2, 1, 3, 4, 4, 4))
    assert read_environment.__wrapped__(run.rows[torch])["sources"] == before
