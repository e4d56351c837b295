"""Cases that are observed without a check: the simulation is given what the real device decided by
a timing.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from patchgate.inputs.devices import REAL
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import ROOT
from patchgate.model.records import Case, Observation, Workload
from patchgate.runner.run_settings import Run
from patchgate.runs import observe

PRODUCT = "mm:bfloat16[1500,64|64,1]:bfloat16[64,64|64,1]:FF"


@dataclass
class Decides:
    """A runner whose real device pads the product for one patch, as a timing may."""

    run: Run
    connect: Any
    logs: dict[str, str]
    costs: Path | None = None
    seen: ClassVar[list[tuple[str, str, str]]] = []

    def observe(self, case: Case, workload: Workload, patch: Patch | None) -> Observation:
        self.seen.append(
            (
                case.device,
                str(case.patch),
                self.run.profile("h200")["padding"].get(PRODUCT, "unknown"),
            )
        )
        decision = "padded" if case.patch else "kept"
        return Observation(
            case=case, facts={f"padding.{PRODUCT}": decision} if case.device == REAL else {}
        )


def test_a_simulated_device_is_given_the_decisions_of_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(folder=str(tmp_path), patch="", rows={"2.11.0": "python"}, devices=(REAL, "h200"))
    patches = {"vllm-42686": ROOT / "fixtures" / "patches" / "vllm-42686"}
    first = Case(torch="2.11.0", device=REAL, workload="pointwise")
    sides = [first, replace(first, patch="vllm-42686")]
    cases = [each for case in sides for each in (case, replace(case, device="h200"))]
    monkeypatch.setattr(observe, "runner_of", lambda run, servers: Decides(run, None, {}))
    monkeypatch.setattr(observe, "running_servers", lambda rows: nullcontext())
    monkeypatch.setattr(Decides, "seen", [])
    done: list[str] = []
    observe.observe_all(run, cases, patches, workers=1, done=done.append)
    assert done == [case.id for case in sides]
    assert Decides.seen == [
        (REAL, "None", "unknown"),
        ("h200", "None", "kept"),
        (REAL, "vllm-42686", "unknown"),
        ("h200", "vllm-42686", "padded"),
    ]
    assert "padding" not in run.profile("cpu")
