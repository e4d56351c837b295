"""One patch on trial: what the cells of a run share.

Decides which observations a verdict needs, and that none is believed where
the sentinel does not count. Judging is left to `patchgate.judge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from patchgate.errors import UsageError
from patchgate.files import line_of
from patchgate.golden import GoldenFile, expectation, path_of, read_golden
from patchgate.judge.facts import judge_facts
from patchgate.judge.machine import judge_sentinel
from patchgate.matrix import load_profile
from patchgate.model import Case, Kind, Patch, Verdict, Workload
from patchgate.project import shown
from patchgate.run import Run
from patchgate.runner import Runner
from patchgate.wire import Answer


class Trial:
    """`again` is the command that repeats this trial."""

    def __init__(self, run: Run, patch: Patch, workloads: dict[str, Workload], runner: Runner) -> None:
        self.run, self.patch, self.workloads, self.runner = run, patch, workloads, runner
        self.again = f"nox -s gate -- {shown(run.patch)}"
        self._sentinels: dict[tuple[str, str], Verdict] = {}
        self._golden = cache(_load_golden)

    def workload(self, name: str) -> Workload:
        """Raises UsageError naming the workloads that there are."""
        if name not in self.workloads:
            known = ", ".join(sorted(self.workloads))
            raise UsageError(f"no workload `{name}`", where=self.claim("[symptom]"), got=name, next=f"one of: {known}")
        return self.workloads[name]

    def case(self, torch: str, device: str, workload: str, patch: Patch | None) -> Case:
        return Case(torch=torch, device=device, workload=workload, patch=patch.id if patch else None)

    def claim(self, key: str) -> str:
        """file:line of a key of the manifest, or of the patch when it has none."""
        if self.patch.manifest is None:
            return f"{shown(self.patch.path)}:1"
        text = Path(self.patch.manifest).read_text(encoding="utf-8")
        return f"{shown(self.patch.manifest)}:{line_of(text, key)}"

    def sentinel(self, torch: str, device: str) -> Verdict:
        """Whether counters count there; asked once in a process."""
        key = (torch, device)
        if key not in self._sentinels:
            answer = self.runner.ask(torch, "sentinel", profile=load_profile(device))
            self._sentinels[key] = judge_sentinel(torch, device, answer)
        return self._sentinels[key]

    def facts(self, check: str, torch: str, device: str, name: str) -> Iterator[Verdict]:
        """Verdicts of the facts of one case; only the sentinel's where that is not green."""
        sentinel = self.sentinel(torch, device)
        if sentinel.kind is not Kind.PASS:
            yield sentinel
            return
        workload = self.workload(name)
        baseline, patched = (self.case(torch, device, name, side) for side in (None, self.patch))
        golden = self._golden(name, device)
        yield from judge_facts(
            check,
            recorded=expectation(golden, patched),
            recorded_unpatched=expectation(golden, baseline),
            unpatched=self.runner.observe(baseline, workload, None),
            patched=self.runner.observe(patched, workload, self.patch),
            next_step=f"read the diff of the generated code below {shown(self.run.folder)}/code; if the change is"
            f" meant: nox -s accept -- --reason '...'; if not, mend the patch and: {self.again}",
        )

    def run_on_cpu(self, torch: str, name: str, patch: Patch | None, outputs: str) -> Answer:
        """Outputs of a workload on the CPU, written to the file `outputs`.

        Compiled C++ is found again by its own source text. The patched side has a folder of its own,
        so that nothing a patch leaves there is ever run unpatched.
        """
        workload = self.workload(name)
        side = hashlib.sha256(patch.source.encode()).hexdigest()[:16] if patch else "unpatched"
        binaries = Path(self.run.folder).parent / "cpp" / torch / side
        return self.runner.ask(
            torch,
            "run",
            workload=name,
            workload_path=workload.path,
            dtype=workload.dtype,
            dynamic=workload.dynamic,
            profile=load_profile("cpu"),
            patch=patch.path if patch else None,
            seed=0,
            outputs=outputs,
            env={"TORCHINDUCTOR_CACHE_DIR": str(binaries.resolve())},
        )


def _load_golden(workload: str, device: str) -> GoldenFile:
    return read_golden(path_of(workload, device), workload, device)
