"""What a run left in its folder -> for each case golden, unpatched and patched, generated code, and times.

Decides which files belong together. Refuses to judge, and to know how anything is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from patchgate.checks.latency import Timing, join, timing_of
from patchgate.inputs.devices import load_profile, profile_of
from patchgate.inputs.golden import GoldenFile, expectation, path_of, read_golden, release_for
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Expectation, Observation, Patch, Verdict
from patchgate.model.statistics import Interval
from patchgate.runner.run import Run

_TIMES = re.compile(r"(?P<workload>[^.]+)\.(?P<device>[^.]+)\.(?P<size>[^.]+)\.(?P<torch>.+)\.\d+\.json")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One case: what is recorded for it, and both sides as they were observed; `code` of each side, if it was kept.

    `on` tells of the device whether it was there or stood in for.
    """

    case: Case
    golden: Expectation
    golden_unpatched: Expectation
    unpatched: Observation | None
    patched: Observation
    code: tuple[str, str] | None
    on: str

    @property
    def name(self) -> str:
        """As verdicts call it: `residual_stack.h200`."""
        return f"{self.case.workload}.{self.case.device}"


@dataclass(frozen=True, kw_only=True)
class Timed:
    """The ratio of times, patched to unpatched, of one workload at one size."""

    name: str
    torch: str
    size: str
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One patch on some rows: its verdicts, and what they were made of."""

    patch: Patch
    torches: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    compared: tuple[Compared, ...] = ()
    times: tuple[Timed, ...] = ()


def gather(run: Run, patch: Patch, verdicts: list[Verdict]) -> Judged:
    """The evidence in a run's folder; what is not there any more is left out."""
    return Judged(
        patch=patch,
        torches=run.torches,
        verdicts=tuple(verdicts),
        compared=tuple(_compared(run, patch)),
        times=tuple(_times(Path(run.folder) / "times")),
    )


def _compared(run: Run, patch: Patch) -> Iterator[Compared]:
    observed = {(o.case.torch, o.case.device, o.case.workload, o.case.patch): o for o in run.store}
    for (torch, device, workload, name), patched in observed.items():
        if name != patch.id:
            continue
        unpatched = observed.get((torch, device, workload, None))
        golden = _golden(workload, _profile(patched.environment.get("device", ""), device))
        release = release_for(golden, torch)
        bare = Case(torch=release, device=device, workload=workload)
        code = _code(run, unpatched), _code(run, patched)
        yield Compared(
            case=patched.case,
            golden=expectation(golden, replace(bare, patch=name)),
            golden_unpatched=expectation(golden, bare),
            unpatched=unpatched,
            patched=patched,
            code=(code[0], code[1]) if code[0] is not None and code[1] is not None else None,
            on=_kind(device),
        )


@cache
def _golden(workload: str, device: str) -> GoldenFile:
    return read_golden(path_of(workload, device), workload, device)


@cache
def _profile(device: str, otherwise: str) -> str:
    return profile_of(device, otherwise=otherwise)


@cache
def _kind(device: str) -> str:
    """ "real" or "simulated", and the name of the profile; a profile that is gone says nothing."""
    try:
        return f"{load_profile(device)['kind']} ({device})"
    except UsageError:
        return device


def _code(run: Run, observation: Observation | None) -> str | None:
    """The generated code of one side: where the run wrote it, or in its folder when that was moved."""
    told = observation.artifacts.get("code") if observation else None
    if told is None:
        return None
    for path in (Path(told), Path(run.folder) / "code" / Path(told).name):
        if path.is_file():
            return path.read_text(encoding="utf-8", errors="replace")
    return None


def _times(folder: Path) -> Iterator[Timed]:
    """One ratio for each workload, size and torch, of all the looks at it."""
    looks: dict[tuple[str, str, str], list[Timing]] = {}
    for path in sorted(folder.glob("*.json")):
        named = _TIMES.fullmatch(path.name)
        if named:
            key = f"{named['workload']}.{named['device']}", named["torch"], named["size"]
            looks.setdefault(key, []).append(_timing(path))
    for (name, torch, size), timings in looks.items():
        yield Timed(name=name, torch=torch, size=size, interval=join(timings).interval)


def _timing(path: Path) -> Timing:
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError("not times", where=str(path), got=repr(error), next="run the gate again") from None
    return timing_of(answer, where=str(path))
