"""Every row and patch, one after the other, each judged once for the same content and picked up after a kill.

Decides what is left to do, and in which order: what is done is a file that
was written atomically, so a sweep that dies loses the job in hand only.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgate.environments import Environments, NotInstallable
from patchgate.evidence import Judged, gather
from patchgate.files import write_atomically
from patchgate.history import History
from patchgate.identity import files_digest, identity_of, patch_digest
from patchgate.judge.machine import judge_row
from patchgate.launch import launch
from patchgate.model import Colour, Observation, Verdict
from patchgate.patches import load_patch
from patchgate.project import DEVICES, GOLDEN, PACKAGE, SUITE, WORKLOADS
from patchgate.run import NAME, VERDICTS, Limits, Run, load_run, load_verdicts

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One patch on one row."""

    torch: str
    patch: Path


@dataclass
class Sweep:
    """`folder` keeps the shelf, what is done, and each job's results; `devices` and `workloads` narrow the cells."""

    folder: Path
    environments: Environments
    history: History
    tell: Tell
    devices: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    workers: int = 2
    told: list[tuple[Job, list[Verdict], bool]] = field(default_factory=list)

    def carry_out(self, jobs: Sequence[Job], run: str, at: str) -> list[Verdict]:
        """The verdicts of all jobs; those of equal content are taken from before."""
        verdicts: list[Verdict] = []
        spent: list[float] = []
        for number, job in enumerate(jobs, 1):
            began = time.monotonic()
            told, is_new = self._judge(job)
            patch = load_patch(job.patch).id
            self.history.record(run, at, patch, told, self._observed(job) if is_new is not None else [])
            self.told.append((job, told, is_new is not None))
            verdicts += told
            if is_new:
                spent.append(time.monotonic() - began)
                self.history.spend(run, patch, job.torch, spent[-1])
            red = sum(verdict.colour is Colour.RED for verdict in told)
            left = f", about {_left(spent, len(jobs) - number)} left" if spent and number < len(jobs) else ""
            how = "judged" if is_new else "known" if is_new is False else "no environment"
            self.tell(f"[{number}/{len(jobs)}] {patch} on torch {job.torch}: {how}, {red} red of {len(told)}{left}")
        return verdicts

    def evidence(self) -> Iterator[Judged]:
        """What was carried out, job by job, with what it left; a row without environment left nothing."""
        for job, told, has_results in self.told:
            patch = load_patch(job.patch)
            if has_results:
                yield gather(load_run(self._results(job) / NAME), patch, told)
            else:
                yield Judged(patch=patch, torches=(job.torch,), verdicts=tuple(told))

    def _judge(self, job: Job) -> tuple[list[Verdict], bool | None]:
        """Verdicts of a job, and whether they are new; None where the row has no environment."""
        try:
            python = self.environments.python(job.torch)
        except NotInstallable as error:
            return [judge_row(job.torch, str(error))], None
        results = self._results(job)
        done = results.with_suffix(".done")
        key = self._key(job, python)
        if done.is_file() and done.read_text(encoding="utf-8") == key and (results / VERDICTS).is_file():
            return load_verdicts(results), False
        made = Run(
            folder=str(results.resolve()),
            patch=str(job.patch.resolve()),
            rows={job.torch: python},
            devices=self.devices,
            workloads=self.workloads,
            limits=self.limits,
            shelf=str((self.folder / "shelf").resolve()),
            reuse=True,
        )
        told = launch(made, workers=self.workers, quiet=True)
        if not any(verdict.colour is Colour.GREY for verdict in told):
            write_atomically(done, key)  # what the machine kept from judging is tried again next time
        return told, True

    def _results(self, job: Job) -> Path:
        return self.folder / "jobs" / f"{load_patch(job.patch).id}.{job.torch}"

    def _observed(self, job: Job) -> list[Observation]:
        run = Run(folder=str(self._results(job)), patch=str(job.patch), rows={})
        return list(run.store)

    def _key(self, job: Job, python: str) -> str:
        """Everything that could make another verdict: patch, environment, material, and patchgate itself."""
        patch = load_patch(job.patch)
        content = [
            job.torch,
            identity_of(python),
            patch.id,
            patch_digest(patch),
            self.devices,
            self.workloads,
            [files_digest(folder) for folder in (PACKAGE, SUITE, WORKLOADS, DEVICES, GOLDEN)],
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _left(spent: Sequence[float], jobs: int) -> str:
    seconds = sum(spent) / len(spent) * jobs
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def shard_of(jobs: Sequence[Job], number: int, count: int) -> list[Job]:
    """Every `count`-th job from `number` (1 is the first): rows of one patch land on different machines."""
    return list(jobs[number - 1 :: count])
