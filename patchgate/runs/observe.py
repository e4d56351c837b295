"""Observes cases that no check of a gate needs: models with and without a patch. Torch releases are
observed one after the other.
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
from patchgate.model.facts import UNPATCHED
from patchgate.model.public_model_figures import Impact, Part, impact_of
from patchgate.model.records import Case, Observation, Workload
from patchgate.runner.client import Runner, runner_of
from patchgate.runner.run_settings import Run, save_run
from patchgate.runner.start_server import running_servers
from patchgate.runs.pool import Ended, carry_out

Side = tuple[str, str | None]  #: torch release, patch


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
    """The observation of each case; `patches` maps the id of each patch to its path.

    Cases that differ only in their devices are observed one after the other, in order; `done` gets
    the id of the first of them. Releases come one after the other, because few machines have memory
    for two warm torches. Raises RuntimeError if patchgate itself fails.
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
                    # A real device decides by timings, which no rule predicts. The simulated device
                    # that is observed next gets these decisions.
                    runner = replace(
                        runner, run=replace(run, padding=padding_of(observation.facts))
                    )

            for event in carry_out(mine, observe, workers=workers):
                if isinstance(event, Ended):
                    name = event.item[0].id
                    if event.error:
                        raise RuntimeError(f"{name} ended without a result") from event.error
                    done(name)
    observed = {case: run.store.load(case) for case in cases if case.torch in run.rows}
    return {case: observation for case, observation in observed.items() if observation}


def impact_on_models(
    run: Run, workers: int, done: Callable[[str], None] = lambda case: None
) -> dict[str, Impact]:
    """The gains and losses of a run's models on its first device, by the title of the comparison.

    A run with a patch compares torch without and with the patch, on each release. A run without a
    patch compares its first release with its last.
    """
    patches = {load_patch(Path(run.patch)).id: Path(run.patch)} if run.patch else {}
    releases = list(run.rows)
    pairs: dict[str, tuple[Side, Side]] = {
        f"{patch} on torch {torch}": ((torch, None), (torch, patch))
        for patch in patches
        for torch in releases
    }
    if not patches:
        pairs[f"torch {releases[0]} to {releases[-1]}"] = (releases[0], None), (releases[-1], None)
    root = Path(run.project.root)
    workloads = {model: [*model_workloads([model], root).values()] for model in run.project.models}

    def case(at: Side, workload: str) -> Case:
        return Case(torch=at[0], device=run.devices[0], workload=workload, patch=at[1])

    cases = {
        case(at, one.name)
        for pair in pairs.values()
        for at in pair
        for some in workloads.values()
        for one in some
    }
    observed = observe_all(run, sorted(cases, key=lambda each: each.id), patches, workers, done)
    impacts = {}
    for title, (before, after) in pairs.items():
        parts = {
            model: [
                Part(
                    count=one.count,
                    before=observed[case(before, one.name)],
                    after=observed[case(after, one.name)],
                )
                for one in some
            ]
            for model, some in workloads.items()
        }
        labels = (UNPATCHED, "patched") if patches else (f"torch {before[0]}", f"torch {after[0]}")
        impacts[title] = impact_of(parts, before=labels[0], after=labels[1])
    return impacts
