"""Measures one item of a search with the gate's own checks, or says why it is skipped.

Each measurement is of one torch environment and one patch. `algorithm.py` decides about skipped
items.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.machine import sentinel_verdict
from patchgate.checks.parity import comparison_failure, outputs_of
from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import project_around
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.facts import facts_with_compiles
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Failure, Verdict, Workload
from patchgate.model.results import Reading
from patchgate.model.serialization import failure_of
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.client import Runner, runner_of
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import Server, Servers, start_server
from patchgate.runner.torch_environments import Environments, NotInstallable
from patchgate.runs.bisect.question import (
    Question,
    QuestionKind,
    inconclusive,
    read_facts,
    read_metrics,
    read_verdicts,
)
from patchgate.runs.gate import judge_patch

# An item of a list is named by its address, which differs in every process. A search therefore
# takes the whole list as one item.
_ADDRESS = re.compile(r"\[\d{6,}\]$")
_NO_PATCH = Patch(id="none", path="", source="", claims=Claims(title="no patch"))


class Skip(Exception):
    """An item cannot be measured; `str` says why."""


@dataclass
class Instrument:
    """Measures on environments, with one server at a time, because few machines have memory for two
    warm torches.
    """

    environments: Environments
    folder: Path  #: results of earlier measurements, by content
    #: the workloads that a question about a verdict's code runs; empty: all
    workloads: tuple[str, ...] = ()
    _server: Server | None = None
    _sentinels: dict[str, Verdict] = field(default_factory=dict)  # of the running server, by device

    @cached_property
    def _all_workloads(self) -> dict[str, Workload]:
        return workloads_with(Path.cwd(), project_around(Path.cwd()))

    def read(self, question: Question, torch: str, patch: Path | None) -> Reading:
        """The answer on one torch with one patch (None: unpatched)."""
        try:
            python = self.environments.python(torch)
        except NotInstallable as error:
            return inconclusive(f"torch {torch} cannot be installed: {error}")
        try:
            loaded = load_patch(patch) if patch else None
        except UsageError as error:
            return inconclusive(str(error).replace("\n", ";"))
        try:
            if question.kind is QuestionKind.CODE:
                assert patch and loaded, "the command asks for a result of a patch only"
                with tempfile.TemporaryDirectory(prefix="patchgate-ask-") as folder:
                    run = self._run(f"{folder}/gate", patch.resolve(), {torch: python})
                    run = replace(run, workloads=self.workloads)
                    return read_verdicts(question, judge_patch(run, loaded, workers=1))
            return self._read_case(question, torch, python, loaded)
        except Skip as reason:
            return inconclusive(reason)

    def _run(self, folder: str, path: Path, rows: dict[str, str]) -> Run:
        """A run of the patch at a path on one torch; its measurements are kept."""
        return Run(
            folder=folder,
            patch=str(path),
            project=project_around(path),
            rows=rows,
            shared_cache=str(self.folder),
            is_job=True,
        )

    def _read_case(
        self, question: Question, torch: str, python: str, patch: Patch | None
    ) -> Reading:
        with self._context(torch, python, patch) as context:
            if question.device not in self._sentinels:
                self._sentinels[question.device] = sentinel_verdict(context, torch, question.device)
            sentinel = self._sentinels[question.device]
            if sentinel.kind is not Kind.PASS:  # no case counts on such a device
                raise Skip(f"{sentinel.code} {sentinel.actual}")
            if question.kind is QuestionKind.METRIC:
                return _read_parity(question, context, torch, patch)
            case = question.case(torch, patch.id if patch else None)
            workload = self._all_workloads[question.workload]
            judged = context.patch_on(torch) if patch else None
            observation = context.runner.observe(case, workload, judged)
        facts = facts_with_compiles(observation)
        if observation.failure and question.name not in facts:
            raise Skip(f"{observation.failure.signature} [{observation.failure.stage}]")
        return read_facts(question, facts)

    def replaced(self, torch: str, patch: Patch) -> list[str]:
        """Return the names that running the patch replaces on that torch.

        Raises UsageError if the patch does not run or replaces nothing.
        """
        with self._context(torch, self.environments.python(torch), patch) as context:
            answer = context.apply(torch)
        failure = failure_of(answer)
        if failure or not answer["changed"]:
            raise UsageError(
                "nothing to search",
                where=display_path(patch.path),
                got=failure.signature if failure else "it replaces nothing",
                next=f"a patch that applies on {torch}",
            )
        return sorted({_ADDRESS.sub("[]", name) for name in answer["changed"]})

    @contextmanager
    def _context(self, torch: str, python: str, patch: Patch | None) -> Iterator[CheckContext]:
        """The context of a patch's checks on one torch; its run folder is deleted at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        patch = patch or _NO_PATCH
        with tempfile.TemporaryDirectory(prefix="ask-", dir=self.folder) as folder:
            run = self._run(folder, Path(patch.path), {torch: python})
            runner = self._runner(run, torch, python)
            yield CheckContext(run, patch, self._all_workloads, runner)

    def _runner(self, run: Run, torch: str, python: str) -> Runner:
        if self._server is None or self._server.torch != torch:
            self.close()
            self._server = start_server(torch, python)
        servers = Servers({torch: self._server}, {torch: environment_digest(python)})
        return runner_of(run, servers)

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None
            self._sentinels.clear()


def _read_parity(
    question: Question, context: CheckContext, torch: str, patch: Patch | None
) -> Reading:
    """The answer that a comparison of both sides' outputs on the CPU gives."""
    case = Case(torch=torch, device="cpu", workload=question.workload)
    files = Path(context.run.folder, "unpatched"), Path(context.run.folder, "patched")
    for side, path in zip((None, patch), files, strict=True):
        _skip_failed(failure_of(outputs_of(context, case, "run", side, path)), f"{path.name}: ")
    answer = context.differences(torch, "differ", *files)
    _skip_failed(comparison_failure(answer))
    return read_metrics(question, answer["metrics"])


def _skip_failed(failure: Failure | None, prefix: str = "") -> None:
    """Raises Skip if a side of a comparison did not run."""
    if failure:
        raise Skip(f"{prefix}{failure.signature}")
