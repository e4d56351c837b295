"""The same case on a real device and on its simulation: which facts are equal, and which cannot be
compared and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from patchgate.inputs.patch import load_patch
from patchgate.model.facts import format_value, value_in
from patchgate.model.records import Case, FactValue, Observation, Unmeasured
from patchgate.model.results import Difference, Fidelity
from patchgate.runner.run_settings import Run
from patchgate.runs.observe import observe_all

# Facts that one side cannot have, with the reason.
EXCLUDED = {
    "resources.occupancy": (
        "torch does not say how many blocks a multiprocessor of a real device holds"
    )
}


def compare_devices(
    run: Run, workloads: Sequence[str], patches: Sequence[Path], workers: int
) -> Iterator[Fidelity]:
    """Every workload on both devices of a run, unpatched and with each patch."""
    by_id = {load_patch(path).id: path.resolve() for path in patches}
    pairs = [
        [Case(torch=torch, device=device, workload=name, patch=patch) for device in run.devices]
        for torch in run.rows
        for name in workloads
        for patch in (None, *by_id)
    ]
    observed = observe_all(run, [case for pair in pairs for case in pair], by_id, workers)
    for pair in pairs:
        yield compare_sides(*(observed[case] for case in pair))


def compare_sides(real: Observation, simulated: Observation) -> Fidelity:
    """Both observations are of one case but for the device."""
    case = real.case
    fidelity = Fidelity(torch=case.torch, workload=case.workload, patch=case.patch)
    failed = [
        f"{side}: {observed.failure.signature} [{observed.failure.stage}]"
        for side, observed in (("real", real), ("simulated", simulated))
        if observed.failure
    ]
    if failed:
        return replace(fidelity, failed="; ".join(failed))
    names = sorted({*real.facts, *simulated.facts})
    excluded = {name: reason for name in names if (reason := _excluded(name, real, simulated))}
    if "compiles" in excluded:  # nothing was compiled, so there is no other fact
        return replace(fidelity, excluded={"every fact": excluded["compiles"]})
    compared = [name for name in names if name not in excluded]
    sides = {
        name: (value_in(real.facts, name), value_in(simulated.facts, name)) for name in compared
    }
    unlike = tuple(
        Difference(fact=name, real=_text(one), simulated=_text(other))
        for name, (one, other) in sides.items()
        if one != other
    )
    return replace(fidelity, compared=len(compared), unlike=unlike, excluded=excluded)


def _excluded(name: str, real: Observation, simulated: Observation) -> str:
    if name in EXCLUDED:
        return EXCLUDED[name]
    for side in (simulated, real):
        value = side.facts.get(name)
        if isinstance(value, Unmeasured):
            return value.reason
    return ""


def _text(value: FactValue | None) -> str:
    return "nothing" if value is None else format_value(value)
