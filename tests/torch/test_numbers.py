"""Figures of outputs that are not all finite: what is so on both sides is equal, and hides no other
element.
"""

from __future__ import annotations

import json
import subprocess
from math import inf
from pathlib import Path

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.paths import PACKAGE
from patchgate.model.serialization import Answer
from patchgate.runner.client import Runner, request_for
from patchgate.runner.run_settings import Run


def test_what_is_not_finite_on_both_sides_is_equal(torch: str, run: Run) -> None:
    """If only one side is not finite, difference, ulps, error and worst element are infinite."""
    script = Path(__file__).with_name("not_finite.py")
    environment = {
        "PYTHONPATH": str(PACKAGE.parent),
        "CUDA_VISIBLE_DEVICES": "",
        "PATH": "/usr/bin:/bin",
    }
    printed = subprocess.run(
        [run.rows[torch], str(script)], env=environment, capture_output=True, text=True
    ).stdout
    figures = json.loads(printed.splitlines()[-1])
    assert figures["equal"] == [0, 0, 0, 0]
    assert figures["one ulp"] == figures["one ulp alone"]
    assert figures["one ulp"][1] == 1
    # An element that eager mode loses is no leave to be wrong elsewhere.
    assert (figures["NaN in eager"]["error_eager"], figures["NaN in eager"]["worst_eager"]) == (
        0,
        0,
    )
    assert figures["NaN in eager"]["error_patched"] > 0.5
    assert [figures[name] for name in ("new NaN", "lost NaN", "other infinity")] == [[inf] * 4] * 3


# Outputs of more elements than any memory holds, which are one element.
ENDLESS = """
import sys
import torch
written = torch.load(sys.argv[1])
written["outputs"]["compiled"] = [torch.ones(1).expand(1 << 50)]
torch.save(written, sys.argv[2])
"""


def test_only_a_file_of_the_patched_side_that_cannot_be_compared_is_that_sides_fault(
    torch: str, run: Run, runner: Runner, tmp_path: Path
) -> None:
    files = {side: str(tmp_path / side) for side in ("unpatched", "patched")}
    cpu = load_profile("cpu")
    request = request_for(load_workloads()["residual_chain"], cpu, None)
    for path in files.values():
        runner.ask(torch, "run", seeds=[0], small=False, outputs=path, **request)

    def differ() -> Answer:
        return runner.ask(torch, "differ", profile=cpu, **files)

    assert (differ()["unreadable"], differ()["metrics"]["differing"]) == ("", 0)
    (tmp_path / "patched").write_bytes(b"none")
    assert differ()["unreadable"].startswith("UnpicklingError")
    subprocess.run([run.rows[torch], "-c", ENDLESS, *files.values()], check=True)
    assert "memory" in differ()["unreadable"]
    (tmp_path / "unpatched").write_bytes(b"none")
    assert differ()["failure"]["cause"] == "machine"
