"""Every row and patch, one after the other, each judged once for the same content and picked up after a kill.

Decides what is left to do, and in which order: what is done is a file that
was written atomically, so a sweep that dies loses the job in hand only.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgate.checks.machine import judge_environment
from patchgate.inputs.patch import load_patch
from patchgate.model.files import write_atomically
from patchgate.model.paths import DEVICES, GOLDEN, PACKAGE, SUITE, WORKLOADS
from patchgate.model.records import Colour, Observation, Verdict
from patchgate.model.results import RunResults
from patchgate.runner.environments import Environments, NotInstallable
from patchgate.runner.identity import files_digest, identity_of, patch_digest
from patchgate.runner.run import NAME, VERDICTS, Limits, Run, load_run, load_verdicts
from patchgate.runs.gate import judge_patch
from patchgate.runs.history.store import History
from patchgate.runs.run_results import results_of

DONE = ".done"
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One patch on one row."""

    torch: str
    patch: Path


@dataclass(frozen=True, kw_only=True)
class Done:
    """What became of a job. `seconds` is None for what was judged before; a row without environment left nothing."""

    job: Job
    verdicts: list[Verdict]
    seconds: float | None = None
    has_results: bool = True


@dataclass
class Sweep:
    """`folder` keeps the shelf, what is done, and each job's results; `devices` and `workloads` narrow the cells.

    `nightly` widens them to every workload.
    """

    folder: Path
    environments: Environments
    history: History
    tell: Tell
    devices: tuple[str, ...]
    workloads: tuple[str, ...] = ()
    nightly: bool = False
    limits: Limits = field(default_factory=Limits)
    workers: int = 2
    told: list[tuple[Job, list[Verdict], bool]] = field(default_factory=list)

    def carry_out(self, jobs: Sequence[Job], run: str, at: str) -> list[Verdict]:
        """The verdicts of all jobs; those of equal content are taken from before."""
        return self.keep((self.judged(job) for job in jobs), len(jobs), run, at)

    def keep(self, done: Iterable[Done], jobs: int, run: str, at: str) -> list[Verdict]:
        """The verdicts of what was done, each kept and told of as soon as it is there."""
        verdicts: list[Verdict] = []
        spent: list[float] = []
        for number, one in enumerate(done, 1):
            patch = load_patch(one.job.patch).id
            self.history.record(run, at, patch, one.verdicts, self._observed(one.job) if one.has_results else [])
            self.told.append((one.job, one.verdicts, one.has_results))
            verdicts += one.verdicts
            if one.seconds is not None:
                spent.append(one.seconds)
                self.history.spend(run, patch, one.job.torch, one.seconds)
            red = sum(verdict.colour is Colour.RED for verdict in one.verdicts)
            left = f", about {_left(spent, jobs - number)} left" if spent and number < jobs else ""
            how = "no environment" if not one.has_results else "known" if one.seconds is None else "judged"
            self.tell(
                f"[{number}/{jobs}] {patch} on torch {one.job.torch}: {how}, {red} red of {len(one.verdicts)}{left}"
            )
        return verdicts

    def evidence(self) -> Iterator[RunResults]:
        """What was carried out, job by job, with what it left; a row without environment left nothing."""
        for job, told, has_results in self.told:
            patch = load_patch(job.patch)
            if has_results:
                yield results_of(load_run(self.results(job) / NAME), patch, told)
            else:
                yield RunResults(patch=patch, torches=(job.torch,), verdicts=tuple(told))

    def known(self, job: Job) -> Done | None:
        """What was judged before for the same content. Raises NotInstallable where the row has no environment."""
        key, results, done = self._key(job, self.environments.python(job.torch)), self.results(job), self._done(job)
        if done.is_file() and done.read_text(encoding="utf-8") == key and (results / VERDICTS).is_file():
            return Done(job=job, verdicts=load_verdicts(results))
        return None

    def judged(self, job: Job) -> Done:
        """What a job comes to, judged now unless it is known."""
        began = time.monotonic()
        try:
            python = self.environments.python(job.torch)
            known = self.known(job)
        except NotInstallable as error:
            return Done(job=job, verdicts=[judge_environment(job.torch, str(error))], has_results=False)
        if known is not None:
            return known
        results = self.results(job)
        made = Run(
            folder=str(results.resolve()),
            patch=str(job.patch.resolve()),
            rows={job.torch: python},
            devices=self.devices,
            workloads=self.workloads,
            nightly=self.nightly,
            limits=self.limits,
            shelf=str((self.folder / "shelf").resolve()),
            reuse=True,
        )
        told = judge_patch(made, workers=self.workers, quiet=True)
        if not any(verdict.colour is Colour.GREY for verdict in told):
            # What the machine kept from judging is tried again next time.
            write_atomically(self._done(job), self._key(job, python))
        return Done(job=job, verdicts=told, seconds=time.monotonic() - began)

    def results(self, job: Job) -> Path:
        """Where the results of a job are."""
        return self.folder / "jobs" / f"{load_patch(job.patch).id}.{job.torch}"

    def _done(self, job: Job) -> Path:
        """Beside the results; the end of a release is no suffix of a file."""
        results = self.results(job)
        return results.with_name(results.name + DONE)

    def _observed(self, job: Job) -> list[Observation]:
        run = Run(folder=str(self.results(job)), patch=str(job.patch), rows={})
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
            self.nightly,
            material(),
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def material() -> list[str]:
    """Digests of patchgate itself and of all that it judges with."""
    return [files_digest(folder) for folder in (PACKAGE, SUITE, WORKLOADS, DEVICES, GOLDEN)]


def _left(spent: Sequence[float], jobs: int) -> str:
    seconds = sum(spent) / len(spent) * jobs
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def shard_of(jobs: Sequence[Job], number: int, count: int) -> list[Job]:
    """Every `count`-th job from `number` (1 is the first): rows of one patch land on different machines."""
    return list(jobs[number - 1 :: count])
