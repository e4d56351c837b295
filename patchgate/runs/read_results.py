"""Reads the results in a run's folder: for each case golden, both observations (unpatched and
patched), generated code, and times.

The folder may have been moved: missing parts are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from patchgate.checks.latency import Timing, join, timing_of
from patchgate.inputs.devices import profile_of
from patchgate.inputs.golden import expectation, load_golden, release_for
from patchgate.inputs.manifest import Patch
from patchgate.model.errors import UsageError
from patchgate.model.files import read_result
from patchgate.model.records import Case, Observation, Verdict
from patchgate.model.serialization import from_dict, parse_json
from patchgate.runner.run_results import ComparedCase, RunResults, TimeRatio
from patchgate.runner.run_settings import Run


def results_of(run: Run, patch: Patch, verdicts: Sequence[Verdict]) -> RunResults:
    """A run's verdicts with the evidence in its folder; missing parts are left out.

    Raises UsageError for a file of times that cannot be read.
    """
    return RunResults(
        patch=patch,
        torches=run.torches,
        verdicts=tuple(verdicts),
        compared=tuple(_compared_cases(run, patch)),
        times=tuple(_time_ratios(Path(run.folder) / "times")),
    )


def _compared_cases(run: Run, patch: Patch) -> Iterator[ComparedCase]:
    golden_of = cache(partial(load_golden, folder=run.project.golden_folder))
    profile_named = cache(partial(profile_of, own=run.project.profiles))  # reads all profiles
    observed = {(o.case.torch, o.case.device, o.case.workload, o.case.patch): o for o in run.store}
    for (torch, device, workload, name), patched in observed.items():
        if name != patch.id:
            continue
        unpatched = observed.get((torch, device, workload, None))
        golden = golden_of(
            workload, profile_named(patched.environment.get("device", ""), otherwise=device)
        )
        release = release_for(golden, torch)
        unpatched_case = Case(torch=release, device=device, workload=workload)
        before, after = _code(run, unpatched), _code(run, patched)
        on = device
        with suppress(UsageError):  # the profile may be gone
            on = f"{run.profile(device)['kind']} ({device})"
        yield ComparedCase(
            case=patched.case,
            golden=expectation(golden, replace(unpatched_case, patch=name)),
            golden_unpatched=expectation(golden, unpatched_case),
            unpatched=unpatched,
            patched=patched,
            code=None if before is None or after is None else (before, after),
            on=on,
        )


def _code(run: Run, observation: Observation | None) -> str | None:
    """The generated code of one side, read from the run's folder even if the folder was moved; None
    if it was not kept.
    """
    written = observation.artifacts.get("code") if observation else None
    if written is None:
        return None
    try:
        return read_result(Path(run.folder) / "code" / Path(written).name)
    except (OSError, ValueError):
        return None


def _time_ratios(folder: Path) -> Iterator[TimeRatio]:
    """Yield one ratio for each workload, size and torch, joined from all of its timings."""
    looks: dict[tuple[Case, str], list[Timing]] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            answer = parse_json(read_result(path))
            key = from_dict(Case, answer["case"], where=str(path)), str(answer["size"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                "not times", where=str(path), got=repr(error), next="run the gate again"
            ) from None
        looks.setdefault(key, []).append(timing_of(answer, where=str(path)))
    for (case, size), timings in looks.items():
        yield TimeRatio(
            name=case.name, torch=case.torch, size=size, interval=join(timings).interval
        )
