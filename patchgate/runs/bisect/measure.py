"""Answers questions by measuring: one torch environment and one patch at a time.

Decides which of the gate's measurements a question needs. The search that
asks is elsewhere, and so is what an environment or a patch comes from.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchgate.checks.context import CheckContext
from patchgate.checks.machine import sentinel_verdict
from patchgate.checks.parity import outputs_of
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.facts import facts_with_compiles
from patchgate.model.paths import shown
from patchgate.model.records import Case, Claims, Kind, Patch, Workload
from patchgate.model.serialization import failure_of
from patchgate.runner.cache import Cache
from patchgate.runner.client import Runner
from patchgate.runner.environments import Environments, NotInstallable
from patchgate.runner.identity import identity_of
from patchgate.runner.run import Run
from patchgate.runner.server import Server, start_server
from patchgate.runs.bisect.question import Question, Reading, read_facts, read_figures, read_verdicts, untold
from patchgate.runs.gate import judge_patch

# Items of lists are told by their address; a search takes such a list as one.
_ADDRESS = re.compile(r"\[\d{6,}\]$")
_NONE = Patch(id="none", path="", source="", claims=Claims(title="no patch"))


@dataclass
class Instrument:
    """`workloads` limits what a question for a verdict's code runs; `folder` holds what was measured before."""

    environments: Environments
    folder: Path
    workloads: tuple[str, ...] = ()
    _server: Server | None = None

    @cached_property
    def _known(self) -> dict[str, Workload]:
        return load_workloads()

    def read(self, question: Question, torch: str, patch: Path | None) -> Reading:
        """What the answer is on one torch with one patch (None: unpatched)."""
        try:
            python = self.environments.python(torch)
        except NotInstallable as error:
            return untold(f"torch {torch} cannot be installed: {error}")
        try:
            loaded = load_patch(patch) if patch else None
        except UsageError as error:
            return untold(str(error).replace("\n", ";"))
        if question.kind == "code":
            return self._judged(question, torch, python, patch)
        return self._measured(question, torch, python, loaded)

    def _judged(self, question: Question, torch: str, python: str, patch: Path | None) -> Reading:
        if patch is None:
            raise UsageError(
                "a verdict is about a patch", where="--code", got="no PATCH", next="... --code PG501 PATCH"
            )
        with tempfile.TemporaryDirectory(prefix="patchgate-ask-") as folder:
            run = Run(
                folder=f"{folder}/gate",
                patch=str(patch.resolve()),
                rows={torch: python},
                workloads=self.workloads,
                shelf=str(self.folder),
                reuse=True,
            )
            return read_verdicts(question, judge_patch(run, workers=1, quiet=True))

    def _measured(self, question: Question, torch: str, python: str, patch: Patch | None) -> Reading:
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ask-", dir=self.folder) as folder:
            rows, shelf = {torch: python}, str(self.folder)
            run = Run(folder=folder, patch=patch.path if patch else "", rows=rows, shelf=shelf)
            context = CheckContext(run, patch or _NONE, self._known, self._runner(run, torch, python))
            sentinel = sentinel_verdict(context, torch, question.device)
            if sentinel.kind is not Kind.PASS:
                return untold(f"{sentinel.code} {sentinel.actual}")
            if question.kind == "metric":
                return _figures(question, context, torch, patch, Path(folder))
            case = Case(
                torch=torch, device=question.device, workload=question.workload, patch=patch.id if patch else None
            )
            observation = context.runner.observe(case, self._known[question.workload], patch)
        facts = facts_with_compiles(observation)
        if observation.failure and question.name not in facts:
            return untold(f"{observation.failure.signature} [{observation.failure.stage}]")
        return read_facts(question, facts)

    def replaced(self, torch: str, patch: Patch) -> list[str]:
        """The names that running the patch replaces on that torch. Raises UsageError when it does not run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="ask-", dir=self.folder) as folder:
            python = self.environments.python(torch)
            run = Run(folder=folder, patch=patch.path, rows={torch: python})
            answer = CheckContext(run, patch, self._known, self._runner(run, torch, python)).apply(torch, version=torch)
        failure = failure_of(answer)
        if failure or not answer["changed"]:
            got = failure.signature if failure else "it replaces nothing"
            raise UsageError(
                "nothing to search", where=shown(patch.path), got=got, next=f"a patch that applies on {torch}"
            )
        return sorted({_ADDRESS.sub("[]", name) for name in answer["changed"]})

    def _runner(self, run: Run, torch: str, python: str) -> Runner:
        if self._server is None or self._server.torch != torch:
            self.close()
            self._server = start_server(torch, python)
        return Runner(
            sockets={torch: self._server.socket},
            logs={torch: self._server.log},
            store=run.store,
            artifacts=self.folder / "code",
            limits=run.limits,
            shelf=Cache(self.folder),
            reuse=True,
            identities={torch: identity_of(python)},
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


def _figures(question: Question, context: CheckContext, torch: str, patch: Patch | None, folder: Path) -> Reading:
    case = Case(torch=torch, device="cpu", workload=question.workload)
    files = folder / "unpatched", folder / "patched"
    for side, path in zip((None, patch), files, strict=True):
        failure = failure_of(outputs_of(context, case, "run", side, path))
        if failure:
            return untold(f"{path.name}: {failure.signature}")
    answer = context.differences(torch, "differ", *files)
    failure = failure_of(answer)
    return untold(failure.signature) if failure else read_figures(question, answer["metrics"])


def flipped(reading: Reading) -> Reading:
    """The same reading of the opposite question."""
    return replace(reading, answer=reading.answer.opposite)
