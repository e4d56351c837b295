"""Observes cases that no check of a gate asks for (fidelity, models), a torch release after the other.

pytest-xdist spreads them over workers, which share the fork server of that release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgate.inputs.devices import padding_of
from patchgate.inputs.models import model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case, Observation, Workload
from patchgate.model.serialization import from_dict, to_dict
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run, load_run, save_run
from patchgate.runner.start_server import connect_through, shared_servers
from patchgate.runs.xdist_pool import Work, carry_out


def known_workloads(project: Project) -> dict[str, Workload]:
    """Those that come with patchgate, and the models of the project."""
    return load_workloads() | model_workloads(project.models, Path(project.root))


def observe_all(
    run: Run,
    cases: Sequence[Case],
    patches: Mapping[str, Path],
    workers: int,
    done: Callable[[str, Any], None] | None = None,
) -> dict[Case, Observation]:
    """The observation of each case; `patches` are the paths of theirs, by id.

    Cases that differ in their devices alone are one item, in their order; `done` gets the first one's id. One torch
    after the other: two warm ones would not fit into every machine.
    """
    path = save_run(run)
    items: dict[Case, list[Case]] = {}
    for case in cases:
        items.setdefault(replace(case, device=""), []).append(case)
    for torch, python in run.rows.items():
        mine = {some[0].id: some for some in items.values() if some[0].torch == torch}
        with shared_servers({torch: python}) as shared:
            settings = {
                "run": str(path),
                "shared": shared,
                "cases": {name: [*map(to_dict, mine[name])] for name in mine},
            }
            settings["patches"] = {name: str(place) for name, place in patches.items()}
            carry_out(__name__, settings, list(mine), workers=workers, done=done)
    observed = {case: run.store.load(case) for case in cases if case.torch in run.rows}
    return {case: observation for case, observation in observed.items() if observation}


def work_on(settings: dict[str, Any]) -> Work:
    """In a worker: observes an item's cases, by its id; the observations are left in the run's store.

    What a real device decided by a timing, the simulated one after it is given: no rule could tell.
    """
    run = load_run(Path(settings["run"]))
    shared, workloads = settings["shared"], known_workloads(run.project)
    connect = connect_through(shared["broker"])
    runner = Runner(run=run, connect=connect, logs=shared["logs"], identities=shared["identities"])
    patches = {name: load_patch(Path(path)) for name, path in settings["patches"].items()}

    def observe(name: str) -> None:
        own = runner
        for each in settings["cases"][name]:
            case = from_dict(Case, each, where=name)
            observation = own.observe(case, workloads[case.workload], patches[case.patch] if case.patch else None)
            own = replace(runner, run=replace(run, padding=padding_of(observation.facts)))

    return observe
