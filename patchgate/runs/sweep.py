"""Judges every patch on every torch, once for the same content.

The journal of a job names the content that was judged. A killed sweep therefore loses only the job
in progress, and continues from this job when it is started again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import mean

from patchgate.checks.machine import judge_environment, judge_unstarted
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import is_partial
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict, record
from patchgate.model.text import time_text
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.files_read import changed_since_read
from patchgate.runner.journal import Journal
from patchgate.runner.run_results import RunResults
from patchgate.runner.run_settings import (
    NAME,
    OBSERVATIONS,
    VERDICTS,
    ResultStore,
    Run,
    load_run,
    load_verdicts,
)
from patchgate.runner.torch_environments import Environments, NotInstallable
from patchgate.runs.content_key import content_key
from patchgate.runs.gate import judge_patch
from patchgate.runs.history.store import History
from patchgate.runs.read_results import results_of


@record
class Job:
    """One patch on one torch."""

    torch: str
    patch: Path  #: as it was given: a folder, or a file


@record
class JobResult:
    """The verdicts of a job."""

    job: Job
    verdicts: list[Verdict]
    seconds: float | None = None  #: how long judging took; None if the job was judged before
    #: True if there is a folder of results; a torch without an environment has none.
    has_results: bool = True

    @property
    def how(self) -> str:
        """`judged, 2 red of 40`, for the line about the job."""
        red = sum(verdict.colour is Colour.RED for verdict in self.verdicts)
        how = "judged" if self.seconds is not None else "known"
        return f"{how if self.has_results else 'no environment'}, {red} red of {len(self.verdicts)}"


@dataclass
class Sweep:
    """How jobs are judged, and where their results are kept."""

    folder: Path  #: holds what runs share (`shared_cache`), and each job's results (`jobs`)
    environments: Environments
    history: History
    progress: Callable[[str], None]  #: gets a line for each job that is done
    template: (
        Run  #: the settings that all runs share; each run gets its own folder, patch and torch
    )
    workers: int = 2  #: cases run at the same time
    done: list[JobResult] = field(default_factory=list)  #: in the order of their end
    # The last job that was begun: it may have left some results.
    _begun: Job | None = field(default=None, init=False)
    _load: Callable[[Path], Patch] = field(default_factory=lambda: cache(load_patch), init=False)

    def judge_all(self, jobs: Sequence[Job], run: str, at: str) -> list[Verdict]:
        """The verdicts of all jobs; jobs with known content are not judged again."""
        return self.record((self.judge(job) for job in jobs), len(jobs), run, at)

    def record(self, results: Iterable[JobResult], jobs: int, run: str, at: str) -> list[Verdict]:
        """The verdicts of all results; each is recorded in the history and reported at once."""
        verdicts: list[Verdict] = []
        spent: list[float] = []
        for number, result in enumerate(results, 1):
            job, patch = result.job, self._load(result.job.patch).id
            observed = ResultStore(self.folder_of(job) / OBSERVATIONS) if result.has_results else ()
            self.history.record(run, at, patch, result.verdicts, observed)
            self.done.append(result)
            verdicts += result.verdicts
            if result.seconds is not None:
                spent.append(result.seconds)
                self.history.spend(run, patch, job.torch, result.seconds)
            left = ""
            if spent and number < jobs:
                left = f", about {time_text(mean(spent) * (jobs - number))} left"
            self.progress(f"[{number}/{jobs}] {patch} on torch {job.torch}: {result.how}{left}")
        return verdicts

    def results(self) -> Iterator[RunResults]:
        """The results of each job, with the evidence in the job's folder."""
        for result in self.done:
            job, patch = result.job, self._load(result.job.patch)
            if result.has_results:
                yield results_of(load_run(self.folder_of(job) / NAME), patch, result.verdicts)
            else:
                yield RunResults(patch=patch, torches=(job.torch,), verdicts=tuple(result.verdicts))

    def judged_before(self, job: Job) -> JobResult | None:
        """Return the result of a job with the same content; None if there is none.

        Raises NotInstallable if the torch has no environment.
        """
        return self._known(job, self._key(job))

    def judge(self, job: Job) -> JobResult:
        """The result of a job, judged now unless it was judged before."""
        began = time.monotonic()
        try:
            key = self._key(job)
        except NotInstallable as error:
            return without_environment(job, str(error))
        before = self._known(job, key)
        if before is not None:
            return before
        self._begun = job
        verdicts = judge_patch(self._run(job), self._load(job.patch), workers=self.workers)
        return JobResult(job=job, verdicts=verdicts, seconds=time.monotonic() - began)

    def stop(self, jobs: Iterable[Job], reason: str) -> list[Verdict]:
        """The verdicts of all jobs of a sweep that ended early. Nothing more is recorded in the
        history.
        """
        done = {result.job for result in self.done}
        for job in jobs:
            if job not in done:
                self.done.append(self._left(job, reason))
        return [verdict for result in self.done for verdict in result.verdicts]

    def _left(self, job: Job, reason: str) -> JobResult:
        with contextlib.suppress(NotInstallable, UsageError):
            before = self.judged_before(job)
            if before:
                return before
            verdicts = load_verdicts(self.folder_of(job)) if job == self._begun else []
            if is_partial(verdicts):
                return JobResult(job=job, verdicts=verdicts)
        stopped = judge_unstarted(Case(torch=job.torch, patch=self._load(job.patch).id), reason)
        return JobResult(job=job, verdicts=[stopped], has_results=False)

    def _known(self, job: Job, key: str) -> JobResult | None:
        """The result in a job's folder, if it was judged with this key. None if the machine
        prevented a verdict, so that the job is judged again.
        """
        folder = self.folder_of(job)
        verdicts = (
            load_verdicts(folder)
            if Journal(folder).key == key
            and (folder / VERDICTS).is_file()
            and not changed_since_read(folder)
            else []
        )
        is_known = bool(verdicts) and all(verdict.is_judged for verdict in verdicts)
        return JobResult(job=job, verdicts=verdicts) if is_known else None

    def _key(self, job: Job) -> str:
        run = self._run(job)
        identities = {torch: environment_digest(python) for torch, python in run.rows.items()}
        return content_key(run, self._load(job.patch), identities)

    def _run(self, job: Job) -> Run:
        """The run of a job. Raises NotInstallable if the torch has no environment."""
        return replace(
            self.template,
            folder=str(self.folder_of(job).resolve()),
            patch=str(job.patch.resolve()),
            rows={job.torch: self.environments.python(job.torch)},
            shared_cache=str((self.folder / "shared_cache").resolve()),
            is_job=True,
        )

    def folder_of(self, job: Job) -> Path:
        """The folder with the results of a job."""
        return self.folder / "jobs" / f"{self._load(job.patch).id}.{job.torch}"


def without_environment(job: Job, problem: str) -> JobResult:
    """The result of a job whose torch has no environment, or whose machine was lost."""
    return JobResult(job=job, verdicts=[judge_environment(job.torch, problem)], has_results=False)
