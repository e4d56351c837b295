"""A run -> the cells of the suite: which combinations of torch, device and workload a check gets.

Decides ids and which cells share a worker, because they share an
observation. Knows pytest only as names of fixtures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from patchgate.inputs.devices import load_profile
from patchgate.model.records import Symptom, Workload
from patchgate.runner.run import Run

_NUMBERS = ("parity", "consistency", "ranks", "tokens")
# Checks that a workload names; all others take what has facts.
_OWN = ("parity", "consistency", "latency", "compile", "cache", "recompile", "shapes")
AXES = ("torch", "device", "workload", "size", "symptom")


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
    kind = check if check in _OWN else "kernels"
    axes: dict[str, list[str] | list[Symptom]] = {
        "torch": list(run.rows),
        "device": _devices(check, run),
        "workload": chosen_workloads(kind, run, workloads),
        "symptom": [symptom] if symptom else [],
    }
    found: list[dict[str, str | Symptom]] = [{}]
    for axis, values in axes.items():
        if axis in fixtures:
            found = [cell | {axis: value} for cell in found for value in values]
    if "size" in fixtures:
        found = [cell | {"size": size} for cell in found for size in _sizes(cell, workloads)]
    return [Cell(values=values, group=_group(values)) for values in found]


def chosen_workloads(kind: str, run: Run, workloads: Mapping[str, Workload]) -> list[str]:
    """Those with this kind of check that the run names, or the pre-merge ones, or all at night."""
    everything = run.nightly or bool(run.workloads)  # a workload that is named is wanted
    found = [name for name, one in workloads.items() if kind in one.checks and (everything or one.premerge)]
    return [name for name in found if not run.workloads or name in run.workloads]


def _devices(check: str, run: Run) -> list[str]:
    """Numbers come out of the CPU and of a real device; time passes there too, on the CPU at night only."""
    real = [device for device in run.devices if load_profile(device)["kind"] == "real"]
    if check in _NUMBERS:
        return ["cpu", *real]
    if check == "modelled":
        return [device for device in run.devices if "speed" in load_profile(device)]
    if check == "latency":
        return [*real, *(device for device in run.devices if device == "cpu" and run.nightly)]
    return list(run.devices)


def _sizes(cell: Mapping[str, str | Symptom], workloads: Mapping[str, Workload]) -> list[str]:
    """The sizes at which a workload is timed, as its `build` takes them; modes other than the default are a GPU's."""
    workload = workloads[str(cell["workload"])]
    if cell.get("device") == "cpu":
        return ["small"] if workload.mode == "default" else []
    return [str(tokens) for tokens in workload.tokens] or ["full"]


def _group(values: Mapping[str, str | Symptom]) -> str:
    symptom = values.get("symptom")
    if isinstance(symptom, Symptom):
        return f"{values.get('torch')}-{symptom.device}-{symptom.workload}"
    return "-".join(str(value) for value in values.values())
