"""A run -> the cells of the suite: which combinations of torch, device and workload a check gets.

Decides ids and which cells share a worker, because they share an
observation. Knows pytest only as names of fixtures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from patchgate.model import Symptom, Workload
from patchgate.run import Run

AXES = ("torch", "device", "workload", "symptom")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Values by fixture name; cells of one `group` run on one worker, one after the other."""

    values: dict[str, str | Symptom]
    group: str

    @property
    def id(self) -> str:
        return "-".join(value if isinstance(value, str) else "symptom" for value in self.values.values())


def cells_of(
    check: str, fixtures: Collection[str], run: Run, workloads: Mapping[str, Workload], symptom: Symptom | None
) -> list[Cell]:
    """The cells of a check that asks for `fixtures`; one empty cell when it asks for none of the axes."""
    kind = "parity" if check == "parity" else "kernels"
    chosen = [name for name, workload in workloads.items() if kind in workload.checks]
    axes: dict[str, list[str] | list[Symptom]] = {
        "torch": list(run.rows),
        "device": list(run.devices),
        "workload": [name for name in chosen if not run.workloads or name in run.workloads],
        "symptom": [symptom] if symptom else [],
    }
    found: list[dict[str, str | Symptom]] = [{}]
    for axis, values in axes.items():
        if axis in fixtures:
            found = [cell | {axis: value} for cell in found for value in values]
    return [Cell(values=values, group=_group(values)) for values in found]


def _group(values: Mapping[str, str | Symptom]) -> str:
    symptom = values.get("symptom")
    if isinstance(symptom, Symptom):
        return f"{values.get('torch')}-{symptom.device}-{symptom.workload}"
    return "-".join(str(value) for value in values.values())
