"""Figures of outputs that are not all finite: what is so on both sides is equal, and hides no other element."""

from __future__ import annotations

import json
import subprocess
from math import inf
from pathlib import Path

from patchgate.model.paths import PACKAGE
from patchgate.runner.run_settings import Run


def test_what_is_not_finite_on_both_sides_is_equal(torch: str, run: Run) -> None:
    """Where only one side is so, difference, ulps, error and worst element are infinite."""
    script = Path(__file__).with_name("not_finite.py")
    environment = {"PYTHONPATH": str(PACKAGE.parent), "CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}
    printed = subprocess.run([run.rows[torch], str(script)], env=environment, capture_output=True, text=True).stdout
    figures = json.loads(printed.splitlines()[-1])
    assert figures["equal"] == [0, 0, 0, 0]
    assert figures["one ulp"] == figures["one ulp alone"]
    assert figures["one ulp"][1] == 1
    # An element that eager mode loses is no leave to be wrong elsewhere.
    assert (figures["NaN in eager"]["error_eager"], figures["NaN in eager"]["worst_eager"]) == (0, 0)
    assert figures["NaN in eager"]["error_patched"] > 0.5
    assert [figures[name] for name in ("new NaN", "lost NaN", "other infinity")] == [[inf] * 4] * 3
