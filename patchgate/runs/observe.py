"""Observes cases that no check of a gate asks for (fidelity, models), a torch release after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchgate.inputs.devices import padding_of
from patchgate.inputs.models import model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case, Observation, Workload
from patchgate.runner.client import Runner, runner_of
from patchgate.runner.run_settings import Run, save_run
from patchgate.runner.start_server import running_servers
from patchgate.runs.pool import Ended, carry_out


def known_workloads(project: Project) -> dict[str, Workload]:
    """The workloads that come with patchgate, and the models of the project."""
    return load_workloads() | model_workloads(project.models, Path(project.root))


def observe_all(
    run: Run,
    cases: Sequence[Case],
    patches: Mapping[str, Path],
    workers: int,
    done: Callable[[str], None] = lambda case: None,
) -> dict[Case, Observation]:
    """The observation of each case; `patches` are the paths of theirs, by id.

    Cases that differ in their devices alone are observed one after the other, in their order;
    `done` gets the id of the first of them. One torch after the other: two warm ones would not fit
    into every machine. Raises RuntimeError for a case whose observation ends with a fault of ours.
    """
    save_run(run)
    items: dict[Case, list[Case]] = {}
    for case in cases:
        items.setdefault(replace(case, device=""), []).append(case)
    workloads = known_workloads(run.project)
    loaded = {name: load_patch(path) for name, path in patches.items()}
    for torch, python in run.rows.items():
        mine = [some for some in items.values() if some[0].torch == torch]
        with running_servers({torch: python}) as servers:
            runner = replace(runner_of(run, servers), costs=None)

            def observe(some: list[Case], runner: Runner = runner) -> None:
                for each in some:
                    patch = loaded[each.patch] if each.patch else None
                    observation = runner.observe(each, workloads[each.workload], patch)
                    # What a real device decided by a timing, the simulated one after it is given:
                    # no rule could tell.
                    runner = replace(
                        runner, run=replace(run, padding=padding_of(observation.facts))
                    )

            def end(ended: Ended[list[Case], None]) -> None:
                if ended.error:
                    raise RuntimeError(
                        f"{ended.item[0].id} ended without a result"
                    ) from ended.error
                done(ended.item[0].id)

            carry_out(mine, observe, workers=workers, ended=end)
    observed = {case: run.store.load(case) for case in cases if case.torch in run.rows}
    return {case: observation for case, observation in observed.items() if observation}
