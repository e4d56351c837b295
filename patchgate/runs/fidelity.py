"""The same case on a real device and on its simulation: which facts are equal, which are not, which cannot be.

Decides what counts as compared. A fact that is left out says why. Refuses to know how either was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from patchgate.model.facts import format_value, value_in
from patchgate.model.records import FactValue, Observation, Unmeasured

# Facts that one side cannot have, with the reason.
EXCLUDED = {"resources.occupancy": "torch does not say how many blocks a multiprocessor of a real device holds"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One fact with its two values, as they would stand in golden."""

    fact: str
    real: str
    simulated: str


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """What comparing one case came to; `unlike` is empty when every compared fact is equal.

    `excluded` maps facts that were not compared to the reason; `failed` says why nothing was.
    """

    torch: str
    workload: str
    patch: str | None
    compared: int = 0
    unlike: tuple[Difference, ...] = ()
    excluded: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""


def compare_sides(real: Observation, simulated: Observation) -> Fidelity:
    """Both observations are of one case but for the device."""
    case = real.case
    told = Fidelity(torch=case.torch, workload=case.workload, patch=case.patch)
    failed = [
        f"{side}: {observed.failure.signature} [{observed.failure.stage}]"
        for side, observed in (("real", real), ("simulated", simulated))
        if observed.failure
    ]
    if failed:
        return replace(told, failed="; ".join(failed))
    names = sorted({*real.facts, *simulated.facts})
    excluded = {name: reason for name in names if (reason := _excluded(name, real, simulated))}
    if "compiles" in excluded:  # no other fact stands beside the one that says that nothing was compiled
        return replace(told, excluded={"every fact": excluded["compiles"]})
    compared = [name for name in names if name not in excluded]
    sides = {name: (value_in(real.facts, name), value_in(simulated.facts, name)) for name in compared}
    unlike = tuple(
        Difference(fact=name, real=_text(one), simulated=_text(other))
        for name, (one, other) in sides.items()
        if one != other
    )
    return replace(told, compared=len(compared), unlike=unlike, excluded=excluded)


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
