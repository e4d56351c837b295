"""Observes cases that no check of a gate asks for (fidelity, models), a torch release after the other.

pytest-xdist spreads them over workers, which share the fork server of that release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgate.inputs.models import model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case, Observation, Workload
from patchgate.model.serialization import from_dict, to_dict
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run, load_run, save_run
from patchgate.runner.start_server import Broker, connect_through, start_server
from patchgate.runs.pool import Work, carry_out


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
    """The observation of each case; `patches` are the paths of theirs, by id. `done` gets each case's id.

    One torch after the other: two warm ones would not fit into every machine.
    """
    path = save_run(run)
    for torch, python in run.rows.items():
        mine = {case.id: case for case in cases if case.torch == torch}
        server = start_server(torch, python)
        broker = Broker([server])
        try:
            shared = {"broker": broker.address, "logs": {torch: server.log}, "identities": {}}
            if run.shared_cache:
                shared["identities"] = {torch: environment_digest(python)}
            settings = {"run": str(path), "shared": shared, "cases": {name: to_dict(mine[name]) for name in mine}}
            settings["patches"] = {name: str(place) for name, place in patches.items()}
            carry_out(__name__, settings, list(mine), workers=workers, done=done)
        finally:
            broker.close()
            server.stop()
    observed = {case: run.store.load(case) for case in cases if case.torch in run.rows}
    return {case: observation for case, observation in observed.items() if observation}


def work_on(settings: dict[str, Any]) -> Work:
    """In a worker: observes one case, by its id; the observation is left in the run's store."""
    run = load_run(Path(settings["run"]))
    shared, workloads = settings["shared"], known_workloads(run.project)
    connect = connect_through(shared["broker"])
    runner = Runner(run=run, connect=connect, logs=shared["logs"], identities=shared["identities"])
    patches = {name: load_patch(Path(path)) for name, path in settings["patches"].items()}

    def observe(name: str) -> None:
        case = from_dict(Case, settings["cases"][name], where=name)
        runner.observe(case, workloads[case.workload], patches[case.patch] if case.patch else None)

    return observe
