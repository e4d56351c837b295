"""One patch on trial: what the cells of a run share.

Decides which observations a verdict needs, and that none is believed where
the sentinel does not count. Judging is left to `patchgate.checks.judge`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from patchgate.checks.coverage import Functions, functions_of
from patchgate.checks.instances import chosen_workloads
from patchgate.checks.judge.facts import judge_facts
from patchgate.checks.judge.gate import does_not_run
from patchgate.checks.judge.latency import Timing, is_settled, join, timing_of
from patchgate.checks.judge.machine import judge_sentinel, judge_undeviced
from patchgate.checks.judge.modelled import judge_modelled
from patchgate.checks.judge.options import judge_options
from patchgate.checks.judge.shapes import judge_shapes
from patchgate.checks.requests import STAND_IN, Measuring, told
from patchgate.inputs.devices import load_profile, profile_of
from patchgate.inputs.golden import GoldenFile, expectation, path_of, read_golden, release_for
from patchgate.inputs.toml import line_of
from patchgate.inputs.workloads import OPTIONS
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import shown
from patchgate.model.records import Case, Failure, Kind, Observation, Patch, Verdict, Workload
from patchgate.model.serialization import Answer, fact_from, failure_of
from patchgate.model.statistics import LOOKS, ROUNDS, SECONDS
from patchgate.runner.client import Runner, asked
from patchgate.runner.identity import patch_digest
from patchgate.runner.run import Run

# Importing a patch takes a second; one that hangs should not cost a whole case's time, twice a release.
IMPORT_SECONDS = 20.0
# Tuning runs dozens of candidates for each kernel before anything is timed.
TUNING = 8
# Those that say more of changed facts than that they changed.
_JUDGES = {"shapes": judge_shapes, "options": judge_options}


class Trial(Measuring):
    """`again` is the command that repeats this trial."""

    def __init__(self, run: Run, patch: Patch, workloads: dict[str, Workload], runner: Runner) -> None:
        self.run, self.patch, self.workloads, self.runner = run, patch, workloads, runner
        self.again = run.again
        self._sentinels: dict[tuple[str, str], Verdict] = {}
        self._applied: dict[tuple[str, str], Answer] = {}
        self._functions: dict[str, Functions] = {}
        self._ran: dict[str, set[int | tuple[int, str]]] = defaultdict(set)
        self._golden = cache(_load_golden)

    def workload(self, name: str) -> Workload:
        """Raises UsageError naming the workloads that there are."""
        if name == OPTIONS.name:
            return OPTIONS
        if name not in self.workloads:
            known = ", ".join(sorted(self.workloads))
            where = self.claim("workload")
            raise UsageError(f"no workload `{name}`", where=where, got=name, next=f"one of: {known}")
        return self.workloads[name]

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

    def doubt(self, torch: str, device: str) -> list[Verdict]:
        """Why nothing else is worth asking there: the sentinel does not count, or the patch does not run."""
        sentinel = self.sentinel(torch, device)
        if sentinel.kind is not Kind.PASS:
            return [sentinel]
        failure = failure_of(self.apply(torch, version=torch))
        return [does_not_run(torch, failure, self.patch, self.again)] if failure else []

    def apply(self, torch: str, version: str) -> Answer:
        """Run the patch under a faked version: what it changed. Asked once in a process.

        Under the row's own version also its side effects, and who still holds what it replaced.
        """
        if (torch, version) not in self._applied:
            seconds = min(self.run.limits.seconds, IMPORT_SECONDS)
            profile = load_profile(STAND_IN)
            self._applied[torch, version] = self.runner.ask(
                torch,
                "apply" if version == torch else "applies",
                seconds,
                patch=self.patch.path,
                scope=self.patch.claims.scope,
                version=version,
                profile=profile,
            )
        return self._applied[torch, version]

    def inspect(self, torch: str) -> Answer:
        """Check the names that the patch stands on in the running torch."""
        targets = list(self.patch.claims.targets or ())
        profile = load_profile(STAND_IN)
        return self.runner.ask(
            torch, "surface", patch=self.patch.path, scope=self.patch.claims.scope, targets=targets, profile=profile
        )

    def hooks(self, torch: str) -> tuple[Answer, Answer]:
        """Which of the user's hooks into the compiler are called (unpatched, patched)."""
        profile, patch, scope = load_profile("cpu"), self.patch.path, self.patch.claims.scope
        unpatched = self.runner.ask(torch, "hooks", profile=profile)
        return unpatched, self.runner.ask(torch, "hooks", profile=profile, patch=patch, scope=scope)

    def undone(self, torch: str, other: Patch) -> tuple[Answer, Answer]:
        """What nothing leads to any more when both patches are applied (this one last, this one first)."""
        profile, ours, theirs = load_profile(STAND_IN), self.patch.path, other.path
        last = self.runner.ask(torch, "undone", profile=profile, patch=ours, after=[theirs])
        return last, self.runner.ask(torch, "undone", profile=profile, patch=theirs, after=[ours])

    def both(self, torch: str, device: str, name: str, other: Patch) -> tuple[Answer, Answer]:
        """The facts of a workload with both patches (this one last, this one first)."""
        workload = self.workload(name)

        def facts(patch: Patch, after: Patch) -> Answer:
            return self.runner.ask(
                torch,
                "observe",
                **told(workload),
                profile=load_profile(device),
                patch=patch.path,
                after=[after.path],
            )

        return facts(self.patch, other), facts(other, self.patch)

    def outside(self, torch: str, device: str, name: str) -> tuple[Observation, Observation]:
        """The facts of a workload (unpatched, after the patch's scope was entered and left)."""
        case, workload = Case(torch=torch, device=device, workload=name), self.workload(name)
        answer = self.runner.ask(
            torch,
            workload.asks,
            **asked(workload),
            profile=load_profile(device),
            patch=self.patch.path,
            scope=self.patch.claims.scope,
            left=True,
        )
        facts = {fact: fact_from(value) for fact, value in answer.get("facts", {}).items()}
        left = Observation(case=case, failure=failure_of(answer), facts=facts)
        return self.runner.observe(case, workload, None), left

    def functions(self, torch: str) -> Functions:
        """The functions of the patch, their lines and branches. Asked once in a process."""
        if torch not in self._functions:
            answer = self.runner.ask(torch, "functions", patch=self.patch.path)
            self._functions[torch] = functions_of(answer)
        return self._functions[torch]

    def has_more_to_cover(self, torch: str) -> bool:
        """Whether anything of the patch is left that never ran; nothing matters where it replaces nothing."""
        if not self.apply(torch, version=torch).get("replacements"):
            return False
        return bool(self.functions(torch).everything() - self._ran[torch])

    def observations(self, torch: str, device: str, name: str) -> tuple[Observation, Observation]:
        """The facts of a workload (unpatched, patched)."""
        workload = self.workload(name)
        unpatched = Case(torch=torch, device=device, workload=name)
        patched = Case(torch=torch, device=device, workload=name, patch=self.patch.id)
        cover = self.has_more_to_cover(torch)
        after = self.runner.observe(patched, workload, self.patch, cover=cover)
        self._ran[torch].update((*after.ran, *after.took))
        return self.runner.observe(unpatched, workload, None), after

    def observed(self) -> list[tuple[str, str]]:
        """(workload, device) of every case of facts that this run asks for."""
        chosen = chosen_workloads("kernels", self.run, self.workloads)
        symptom = self.patch.claims.symptom
        cases = [(name, device) for name in chosen for device in self.run.devices]
        return [*cases, (symptom.workload, symptom.device)] if symptom else cases

    def facts(self, check: str, torch: str, device: str, name: str) -> Iterator[Verdict]:
        """Verdicts of one check ("kernels", "graph", "shapes" or "options") on the facts of one case."""
        needed = self.workload(name).needs_device
        if needed and load_profile(device)["kind"] != "real":
            yield judge_undeviced(check, torch, f"{name}.{device}", f"needs one: {needed}")
            return
        unpatched, patched = self.observations(torch, device, name)
        # A real device is held to the record of the profile that describes it.
        golden = self._golden(name, profile_of(unpatched.environment.get("device", ""), otherwise=device))
        judge = _JUDGES.get(check, partial(judge_facts, check))
        release = release_for(golden, torch)
        yield from judge(
            recorded=expectation(golden, replace(patched.case, torch=release)),
            recorded_unpatched=expectation(golden, replace(unpatched.case, torch=release)),
            unpatched=unpatched,
            patched=patched,
            release=release,
            next_step=f"compare the generated code below {shown(self.run.folder)}/code; if the change is meant:"
            f" nox -s accept -- --reason '...'; if not, mend the patch and: {self.again}",
        )

    def modelled(self, torch: str, device: str, name: str) -> list[Verdict]:
        """Verdicts on the modelled time of one case; none where it did not compile, or has no such time."""
        if self.workload(name).needs_device:
            return []
        return judge_modelled(self.patch, *self.observations(torch, device, name), self.claim("budgets"))

    def timing(self, torch: str, device: str, name: str, size: str) -> Timing | Failure:
        """Paired times of a workload on a GPU or the CPU: looked at again while a budget lies within the interval."""
        looks: list[Timing] = []
        while len(looks) < LOOKS and not (looks and is_settled(self.patch, join(looks))):
            answer = self._look(torch, device, name, size, seed=len(looks))
            failure = failure_of(answer)
            if failure:
                return failure
            looks.append(timing_of(answer, where=f"times of {name}"))
            kept = Path(self.run.folder) / "times" / f"{name}.{device}.{size}.{torch}.{len(looks)}.json"
            write_atomically(kept, json.dumps(answer, sort_keys=True) + "\n")
        return join(looks)

    def _look(self, torch: str, device: str, name: str, size: str, seed: int) -> Answer:
        workload, beside = self.workload(name), Path(self.run.folder).resolve().parent
        ask = partial(
            self.runner.ask,
            torch,
            "time",
            self.run.limits.seconds * (TUNING if "autotune" in workload.mode else 1),
            workload=name,
            workload_path=workload.path,
            dtype=workload.dtype,
            size=size,
            mode=workload.mode,
            built=str(beside / "triton" / torch / patch_digest(self.patch)),
            tuned=str(beside / "tuned" / torch / str(seed)),
            profile=load_profile(device),
            patch=self.patch.path,
            scope=self.patch.claims.scope,
            rounds=ROUNDS,
            for_seconds=SECONDS,
            seed=seed,
        )
        return self._with_binaries(torch, self.patch, ask)


def _load_golden(workload: str, device: str) -> GoldenFile:
    return read_golden(path_of(workload, device), workload, device)
