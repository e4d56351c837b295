"""Names in a manifest that must be known elsewhere: kinds of effects, workloads, devices and facts.

A misspelt one is refused with the nearest that there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from patchgate.inputs.devices import device_names
from patchgate.inputs.golden import golden_path
from patchgate.inputs.project import Project
from patchgate.inputs.structure import Invalid, nearest
from patchgate.inputs.workloads import OPTIONS, load_workloads, own_workloads, workload_files
from patchgate.model.facts import COMPILES, HISTOGRAMS, ON_REQUEST
from patchgate.model.files import read_text
from patchgate.model.paths import GOLDEN, WORKLOADS, display_path
from patchgate.model.records import Symptom

#: What the probe reports of a module that is run; `thread-local`: an option that is meant for one thread only.
EFFECTS = (
    "compile",
    "config",
    "device",
    "environment",
    "files",
    "network",
    "process",
    "processes",
    "thread-local",
    "threads",
)


def validate_effects(effects: tuple[str, ...]) -> None:
    """Raises Invalid for an effect of a kind that the probe does not know; the kind is the first word."""
    for effect in effects:
        kind = effect.partition(" ")[0]
        if kind not in EFFECTS:
            raise Invalid(f"no kind of effect `{kind}`", path=("effects",), next=nearest(kind, EFFECTS))


def validate_symptom(symptom: Symptom, patch: Path, project: Project) -> None:
    """Raises Invalid for a workload, device or fact that neither patchgate, the project nor the patch has.

    Facts are known of a workload that comes with patchgate; one of their own may have any.
    """
    own = own_workloads(patch, project)
    if symptom.workload not in {OPTIONS.name, *own, *_shipped_like(symptom.workload)}:
        _refuse("workload", symptom.workload, {*load_workloads(), OPTIONS.name, *own})
    if symptom.device not in (devices := device_names(project.profiles)):
        _refuse("device", symptom.device, devices)
    facts = _recorded_facts(golden_path(symptom.workload, symptom.device, GOLDEN))
    unlisted = symptom.workload in own or symptom.fact.startswith((*HISTOGRAMS, ON_REQUEST))
    if facts and not unlisted and symptom.fact not in facts | {COMPILES}:
        choices = sorted(fact for fact in facts if not fact.startswith(HISTOGRAMS))
        raise Invalid(f"no fact `{symptom.fact}`", path=("symptom", "fact"), next=nearest(symptom.fact, choices))


def _shipped_like(name: str) -> set[str]:
    """The workloads of the files that may have one of that name: the other files are not read."""
    files = [file for file in workload_files(WORKLOADS) if name.startswith(file.stem)]
    return {each for file in files for each in load_workloads(file)}


def _refuse(key: str, name: str, known: Iterable[str]) -> NoReturn:
    raise Invalid(f"no {key} `{name}`", path=("symptom", key), next=nearest(name, sorted(known)))


def _recorded_facts(path: Path) -> frozenset[str]:
    """The names of the facts in a golden file; their values are not parsed."""
    lines = read_text(path, display_path(path)).splitlines() if path.is_file() else []
    return frozenset(line.split()[0] for line in lines if "  " in line)
