"""The same case on a real device and on its simulation: which facts are equal, and which cannot be compared and why.

pytest-xdist spreads the cases over workers, which share the fork server of one torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.facts import format_value, value_in
from patchgate.model.records import Case, FactValue, Observation, Unmeasured
from patchgate.model.results import Difference, Fidelity
from patchgate.model.serialization import from_dict, to_dict
from patchgate.runner.client import Runner
from patchgate.runner.run import Run, load_run, save_run
from patchgate.runner.server import Broker, connect_through, start_server
from patchgate.runs.pool import Work, carry_out

# Facts that one side cannot have, with the reason.
EXCLUDED = {"resources.occupancy": "torch does not say how many blocks a multiprocessor of a real device holds"}


def compare_devices(run: Run, workloads: Sequence[str], patches: Sequence[Path], workers: int) -> Iterator[Fidelity]:
    """Every workload on both devices of a run, unpatched and with each patch.

    One torch after the other: two warm ones would not fit into every machine.
    """
    path = save_run(run)
    cases = [f"{name}:{patch}" for name in workloads for patch in ("", *(patch.resolve() for patch in patches))]
    for torch, python in run.rows.items():
        server = start_server(torch, python)
        broker = Broker([server])
        try:
            settings = {"run": str(path), "torch": torch, "broker": broker.address, "log": server.log}
            results = carry_out(__name__, settings, cases, workers=workers)
        finally:
            broker.close()
            server.stop()
        yield from (from_dict(Fidelity, results[case], where=case) for case in cases)


def work_on(settings: dict[str, Any]) -> Work:
    """In a worker: compares one case, `WORKLOAD:PATCH`."""
    run, torch, workloads = load_run(Path(settings["run"])), settings["torch"], load_workloads()
    runner = Runner(run=run, connect=connect_through(settings["broker"]), logs={torch: settings["log"]})

    def compare(case: str) -> Any:
        name, _, path = case.partition(":")
        patch = load_patch(Path(path)) if path else None
        sides = [
            runner.observe(
                Case(torch=torch, device=device, workload=name, patch=patch.id if patch else None),
                workloads[name],
                patch,
            )
            for device in run.devices
        ]
        return to_dict(compare_sides(*sides))

    return compare


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
    sides = {name: (value_in(real.facts, name), value_in(simulated.facts, name)) for name in compared}
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
