"""Public models on both sides: with a patch and without it, or on two torch releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchgate.inputs.models import model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.model.facts import UNPATCHED
from patchgate.model.public_model_figures import Impact, Part, impact_of
from patchgate.model.records import Case
from patchgate.runner.run_settings import Run
from patchgate.runs.observe import observe_all

Side = tuple[str, str | None]  #: torch release, patch


def impact_on_models(run: Run, workers: int, done: Callable[[str, Any], None] | None = None) -> dict[str, Impact]:
    """What the models of a run's project gain and lose on its first device, by the title of the comparison.

    With the run's patch and without, on each of its releases; without a patch, on its first release and its last.
    """
    patches = {load_patch(Path(run.patch)).id: Path(run.patch)} if run.patch else {}
    releases = list(run.rows)
    pairs: dict[str, tuple[Side, Side]] = {
        f"{patch} on torch {torch}": ((torch, None), (torch, patch)) for patch in patches for torch in releases
    }
    if not patches:
        pairs[f"torch {releases[0]} to {releases[-1]}"] = (releases[0], None), (releases[-1], None)
    root = Path(run.project.root)
    workloads = {model: [*model_workloads([model], root).values()] for model in run.project.models}

    def case(at: Side, workload: str) -> Case:
        return Case(torch=at[0], device=run.devices[0], workload=workload, patch=at[1])

    cases = {
        case(at, one.name) for pair in pairs.values() for at in pair for some in workloads.values() for one in some
    }
    observed = observe_all(run, sorted(cases, key=lambda each: each.id), patches, workers, done)
    impacts = {}
    for title, (before, after) in pairs.items():
        parts = {
            model: [
                Part(count=one.count, before=observed[case(before, one.name)], after=observed[case(after, one.name)])
                for one in some
            ]
            for model, some in workloads.items()
        }
        labels = (UNPATCHED, "patched") if patches else (f"torch {before[0]}", f"torch {after[0]}")
        impacts[title] = impact_of(parts, before=labels[0], after=labels[1])
    return impacts
