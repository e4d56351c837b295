"""Cases that are observed without a check: the simulation is given what the real device decided by a timing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from patchgate.inputs.devices import REAL
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import ROOT
from patchgate.model.records import Case, Observation, Workload
from patchgate.model.serialization import to_dict
from patchgate.runner.run_settings import Run, save_run
from patchgate.runs import observe

PRODUCT = "mm:bfloat16[1500,64|64,1]:bfloat16[64,64|64,1]:FF"


@dataclass
class Decides:
    """A runner whose real device pads the product for one patch, as a timing may."""

    run: Run
    connect: Any
    logs: dict[str, str]
    identities: dict[str, str]
    seen: ClassVar[list[tuple[str, str, str]]] = []

    def observe(self, case: Case, workload: Workload, patch: Patch | None) -> Observation:
        self.seen.append((case.device, str(case.patch), self.run.profile("h200")["padding"].get(PRODUCT, "unknown")))
        decision = "padded" if case.patch else "kept"
        return Observation(case=case, facts={f"padding.{PRODUCT}": decision} if case.device == REAL else {})


def test_a_simulated_device_is_given_the_decisions_of_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(folder=str(tmp_path), patch="", rows={"2.11.0": "python"}, devices=(REAL, "h200"))
    patch = str(ROOT / "fixtures" / "patches" / "vllm-42686")
    first = Case(torch="2.11.0", device=REAL, workload="pointwise")
    sides = [first, replace(first, patch="vllm-42686")]
    items = {case.id: [to_dict(case), to_dict(replace(case, device="h200"))] for case in sides}
    shared = {"broker": "", "logs": {}, "identities": {}}
    settings = {"run": str(save_run(run)), "shared": shared, "cases": items, "patches": {"vllm-42686": patch}}
    monkeypatch.setattr(observe, "Runner", Decides)
    monkeypatch.setattr(Decides, "seen", [])
    work = observe.work_on(settings)
    for name in items:
        work(name)
    assert Decides.seen == [
        (REAL, "None", "unknown"),
        ("h200", "None", "kept"),
        (REAL, "vllm-42686", "unknown"),
        ("h200", "vllm-42686", "padded"),
    ]
    assert "padding" not in run.profile("cpu")
