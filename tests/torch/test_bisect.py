"""A search on real torch: which of a patch's replaced names do it together."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import ROWS

from patchgate.bisect_command import bisect

FIVE = Path(__file__).parent / "five_targets.py"


@pytest.mark.skipif("2.11.0" not in ROWS, reason="no row of torch 2.11.0")
@pytest.mark.xdist_group("2.11.0")
def test_two_of_five_targets_that_do_it_together_are_named(tmp_path):
    row = f"2.11.0={ROWS['2.11.0']}"
    question = ["--fact", "residual_stack.h200.loads.max > 4", "--targets", "--row", row]
    told = CliRunner().invoke(bisect, [*question, "--folder", str(tmp_path), str(FIVE)], catch_exceptions=False)
    lines = told.output.splitlines()
    start = lines.index("2 of 5 targets together turn `residual_stack.h200.loads.max > 4`:")
    assert lines[start + 1 : start + 3] == [
        "  torch._inductor.ir.StorageBox.patchgate_many",
        "  torch._inductor.ir.StorageBox.should_realize_on_reuse",
    ]
