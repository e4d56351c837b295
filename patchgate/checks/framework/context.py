"""The context of one run's checks: the patch, its workloads, the probe, and the answers that
several checks need.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from patchgate.checks.framework.find_checks import NothingToJudge
from patchgate.inputs.devices import profile_of
from patchgate.inputs.golden import (
    GoldenFile,
    expectation,
    is_accepted,
    load_accepted,
    load_golden,
    release_for,
)
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import backend_entry_points
from patchgate.inputs.workloads import OPTIONS
from patchgate.model.errors import UsageError
from patchgate.model.facts import not_requested, value_in
from patchgate.model.paths import WORKLOADS, user_cache
from patchgate.model.records import Case, Expectation, Observation, Workload, record
from patchgate.model.serialization import Answer, fact_from, failure_of
from patchgate.runner.cache_keys import is_foreign, patch_digest
from patchgate.runner.client import Locks, Runner, request_for, uses_the_patch
from patchgate.runner.request_costs import note_cost
from patchgate.runner.run_settings import Run

# A patch is imported on a simulated GPU, so that no real GPU is needed or touched.
SIMULATED = "h200"
# The time limit of a new interpreter, as a multiple of the limit of one case: it loads torch, and
# then the patch's imports.
_NEW_INTERPRETER = 3
# The time limit of a script, as a multiple of the limit of one case: it imports torch before it
# compiles.
_SCRIPT = 3
# Characters in a path at which torch's command for building C++ would be split.
_SPLITS = re.compile(r"[\s'\"\\]")
# Importing a patch takes a second. A patch that hangs should not cost the time of a whole case
# twice for each release.
IMPORT_SECONDS = 20.0
# The time limit of a question that imports the patch several times is at most that of this many
# imports.
_IMPORTS_AT_ONCE = 3
# The workloads that are measured although the patch has no visible effect. A project's own
# workloads come before these.
_FEW = ("pointwise", "prenorm_mlp")
UNCHANGED = "nothing changed on this release"
_AS_RECORDED = "every fact is as recorded, with the patch as without it"


def is_changed(answer: Answer) -> bool:
    """True if running the patch had a visible effect."""
    return any(answer.get(kind) for kind in ("changed", "edited", "defined", "effects", "held"))


def claimed_names(patch: Patch, applied: Answer) -> set[str]:
    """The claimed targets, and the names in torch for which they stand."""
    return {*(patch.claims.targets or ())}.union(*applied.get("claimed", {}).values())


@record
class Functions:
    """The functions of a patch and their branches. The key of a function is `name:first line`."""

    lines: dict[str, list[int]] = field(default_factory=dict)  #: the lines of each function
    outcomes: dict[str, list[tuple[int, str]]] = field(
        default_factory=dict
    )  #: the line of a condition, and its outcome

    def everything(self) -> set[object]:
        """All lines and outcomes."""
        return {*chain(*self.lines.values()), *chain(*self.outcomes.values())}


class CheckContext:
    """One patch in one run, for all threads that judge it.

    Answers that several checks need are asked once.
    """

    def __init__(
        self, run: Run, patch: Patch, workloads: dict[str, Workload], runner: Runner
    ) -> None:
        self.run, self.patch, self.workloads, self.runner = run, patch, workloads, runner
        self.golden = cache(partial(load_golden, folder=run.project.golden_folder))
        self._accepted = load_accepted(run.project.golden_folder)
        self.only: tuple[Case, ...] = ()  # if not empty, the only cases whose facts are asked for
        self._shared: dict[str, Answer] = {}
        self._asking: Locks = {}
        self._ran: dict[str, set[object]] = {}  # by torch
        self._compiled_once: set[Case] = set()
        self._built_before = frozenset(self._binaries_folder().glob("*/*"))  # by earlier runs

    def workload(self, name: str) -> Workload:
        """The workload with this name. Raises UsageError, with all names, if there is none."""
        if name == OPTIONS.name:
            return OPTIONS
        if name not in self.workloads:
            known = ", ".join(sorted(self.workloads))
            where = self.patch.place_of("workload")
            raise UsageError(
                f"no workload `{name}`", where=where, got=name, next=f"one of: {known}"
            )
        return self.workloads[name]

    def sentinel(self, torch: str, device: str) -> Answer:
        """The facts of a tiny case, and their known values."""
        ask = partial(self.runner.ask, torch, "sentinel", profile=self.run.profile(device))
        return self.once_a_run(f"sentinel {torch} {device}", ask)

    def case(self, torch: str) -> Case:
        """The case of the patch on one release, for verdicts that are not about one workload."""
        return Case(torch=torch, patch=self.patch.id)

    def apply(self, torch: str) -> Answer:
        """Run the patch; return its changes, its side effects, and the holders of the originals."""
        entry_points = backend_entry_points(self.patch)
        ask = partial(self._import, torch, "apply", version=torch, entry_points=entry_points)
        return self.once_a_run(f"apply {torch}", partial(ask, self.patch))

    def patch_on(self, torch: str) -> Patch:
        """The patch as users have it who import it first: holders that a new interpreter loads
        after it get its replacements.

        Holders of a claimed name keep the original, because PG801 judges them. A scope is entered
        once the compiler is loaded.
        """
        applied = self.apply(torch)
        claimed = claimed_names(self.patch, applied)
        places = {
            place: name
            for name, places in applied.get("holders", {}).items()
            for place in places
            if name not in claimed and not name.endswith("]") and not place.endswith("]")
        }
        if not places or self.patch.claims.scope:
            return self.patch
        loaded = self.apply_anew(torch).get("later", ())
        later = {place: name for place, name in places.items() if place in loaded}
        return replace(self.patch, later=later)

    def _request(
        self, torch: str, question: str, device: str, workload: Workload | None, patch: Patch | None
    ) -> dict[str, Any]:
        if patch is self.patch and uses_the_patch(question):
            patch = self.patch_on(torch)
        return request_for(workload, self.run.profile(device), patch)

    def uncompiled_within(self, case: Case) -> str:
        """The class of the mode that the patch's scope enters, if torch compiles nothing within it.

        A mode that `apply` has seen is not enough, because the scope may enter none in another
        process. The case's workload must also fail to compile, or the first workload if the case
        has none. The result is empty otherwise.
        """
        mode = self.apply(case.torch).get("uncompiled", "")
        if not mode:
            return ""
        cases = self.observed_cases(case.torch)
        tried = case if case in cases else cases[0]
        patch = self.patch_on(case.torch)
        observed = self.runner.observe(tried, self.workload(tried.workload), patch)
        return mode if observed.failure else ""

    def require_compiles(self, case: Case) -> None:
        """Raise NothingToJudge if torch compiles nothing within the scope of the patch."""
        mode = self.uncompiled_within(case)
        if mode:
            raise NothingToJudge(f"torch compiles nothing within {mode}")

    def _import(
        self, torch: str, question: str, patch: Patch, times: int = 1, **more: Any
    ) -> Answer:
        """Ask a question about importing a patch. The limit is the time of `times` imports."""
        seconds = min(self.run.limits.seconds, IMPORT_SECONDS) * times
        targets = list(patch.claims.targets or ())
        return self.ask_once(
            torch, question, SIMULATED, patch=patch, seconds=seconds, targets=targets, **more
        )

    def apply_anew(self, torch: str) -> Answer:
        """Run the patch again in a new interpreter, where only `import torch` has run before."""
        applied = self.apply(torch)
        claimed = [effect.partition(" ") for effect in self.patch.claims.effects]
        ask = partial(
            self.ask_once,
            torch,
            "new interpreter",
            SIMULATED,
            patch=self.patch,
            compiles=_NEW_INTERPRETER,
            version=torch,
            names=applied["changed"],
            variables=[name for kind, _, name in claimed if kind == "environment" and name],
            holders=sorted(set().union(*applied["holders"].values())),
        )
        return self.once_a_run(f"new interpreter {torch}", ask)

    def apply_under(self, torch: str, versions: Sequence[str], patch: Patch) -> dict[str, Answer]:
        """The changes that the patch makes under each of these faked versions."""
        times = min(len(versions), _IMPORTS_AT_ONCE)
        answer = self._import(torch, "applies", patch, times, versions=list(versions))
        if "failure" not in answer:
            return dict(answer["versions"])
        if len(versions) == 1:
            return {versions[0]: answer}
        # The patch may hang under one version, and is then at fault under that version only.
        return {each: self.apply_under(torch, [each], patch)[each] for each in versions}

    def once_a_run(self, name: str, ask: Callable[[], Answer]) -> Answer:
        """An answer that several checks need. The first thread asks, and the others wait for it."""
        with self._asking.setdefault(name, Lock()):
            if name not in self._shared:
                self._shared[name] = ask()
            return self._shared[name]

    def ask(
        self,
        torch: str,
        question: str,
        device: str,
        *,
        workload: Workload | None = None,
        patch: Patch | None = None,
        seconds: float | None = None,
        compiles: int = 1,
        **more: Any,
    ) -> Answer:
        """Put one question to the probe.

        A question that compiles several times has the time limit of as many cases.
        """
        request = self._request(torch, question, device, workload, patch) | more
        return self.runner.ask(
            torch, question, seconds or self.run.limits.seconds * compiles, **request
        )

    def ask_once(self, torch: str, question: str, device: str, **asked: Any) -> Answer:
        """Ask as `ask` does. If runs share a cache, keep the answer by the request's content."""
        ask = partial(self.ask, torch, question, device, **asked)
        return self.keep(ask, torch, question, device, **asked)

    def keep(
        self,
        ask: Callable[[], Answer],
        torch: str,
        question: str,
        device: str,
        *,
        workload: Workload | None = None,
        patch: Patch | None = None,
        compiles: int = 1,
        **more: Any,
    ) -> Answer:
        """Return the answer of `ask`. If runs share a cache, the cache keeps the answer by the
        content of all arguments except `compiles`, which changes no answer.
        """
        request = self._request(torch, question, device, workload, patch)
        return self.runner.keep(ask, torch, patch, {"do": question, **request, **more})

    def ask_building(
        self, torch: str, question: str, device: str, *, patch: Patch | None, **more: Any
    ) -> Answer:
        """Ask as `ask_once` does, for questions that build C++. Torch finds a build by its source.

        The patched side has a folder of its own, so that the unpatched side never runs a build that
        a patch has left. The folder starts with copies of the unpatched builds, so that kernels of
        the same source are built once.
        """
        folder = self._binaries(torch, patch, more.get("workload"))
        if folder != self._binaries(torch, None):
            more["libraries"] = str(self._binaries(torch, None))
        ask = partial(self.ask_once, torch, question, device, patch=patch, **more)
        answer = ask(env={"TORCHINDUCTOR_CACHE_DIR": str(folder)})
        if ".so: " in answer.get("failure", {}).get("signature", ""):
            # A process that was killed while it linked may have left half a library in the folder.
            with TemporaryDirectory() as fresh:
                answer = ask(env={"TORCHINDUCTOR_CACHE_DIR": fresh})
        return answer

    def _binaries(self, torch: str, patch: Patch | None, workload: Workload | None = None) -> Path:
        """The folder of one side's builds. Workloads that come with the patch have other ones."""
        side = "patched" if patch else "unpatched"
        own = Path(workload.path) if workload and is_foreign(workload.path) else None
        if own:
            # The folder is named for the text, so that builds of an earlier text are not reused.
            content = own.read_bytes() if own.is_file() else b""
            side = f"{hashlib.sha256(content).hexdigest()[:12]}-{side}"
        if patch or own:
            # With --watch, all versions of the patch share a folder, and so find earlier builds.
            side = f"{self.run.watch or patch_digest(self.patch)}-{side}"
        # Torch finds a build again by its source and command, even if a header was edited.
        home = f"{torch}-{self.runner.identities.get(torch, '')[:12]}"
        return self._binaries_folder() / home / side

    def _binaries_folder(self) -> Path:
        folder = Path(self.run.binaries or Path(self.run.folder).parent / "cpp").resolve()
        if _SPLITS.search(str(folder)):
            folder = user_cache("cpp") / hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        return folder

    def was_built(self, case: Case, patch: Patch | None) -> bool:
        """True if an earlier run has built C++ with the patch, or without it if `patch` is None. A
        script that needs these builds can then start before the question `run` is answered.
        """
        return self._binaries(case.torch, patch, self.workload(case.workload)) in self._built_before

    def ask_plain_run(self, case: Case, patch: Patch | None, outputs: Path, seed: int) -> Answer:
        """Run a workload in a user's script, with the builds of the question `run`. The outputs go
        to the file `outputs`, and the answer has the generated code.
        """
        workload = self.workload(case.workload)
        libraries = self._binaries(case.torch, patch, workload)
        return self.ask(
            case.torch,
            "plain run",
            "cpu",
            workload=workload,
            patch=patch,
            compiles=_SCRIPT,
            outputs=str(outputs),
            seeds=[seed],
            small=False,
            libraries=str(libraries),
        )

    def differences(self, torch: str, question: str, unpatched: Path, patched: Path) -> Answer:
        """Compare two files of outputs, and return the figures of their difference."""
        return self.runner.ask(
            torch,
            question,
            profile=self.run.profile("cpu"),
            unpatched=str(unpatched),
            patched=str(patched),
        )

    def functions(self, torch: str) -> Functions:
        """The functions of the patch, their lines and branches."""
        ask = partial(self.runner.ask, torch, "functions", patch=self.patch.path)
        answer = self.once_a_run(f"functions {torch}", ask)
        ends = answer.get("outcomes", {})
        outcomes = {name: [tuple(each) for each in found] for name, found in ends.items()}
        return Functions(lines=answer.get("functions", {}), outcomes=outcomes)

    def has_more_to_cover(self, torch: str) -> bool:
        """True if lines or branches of the patch have not run yet, or if an original that is still
        held somewhere has not been called; False if the patch replaces nothing.
        """
        if not self.apply(torch).get("replacements"):
            return False
        every = {*self.functions(torch).everything(), *self.held(torch)}
        return bool(every - self._ran.setdefault(torch, set()))

    def held(self, torch: str) -> dict[str, list[str]]:
        """Map each changed name to the names that still refer to its original.

        Left out are holders that are loaded after the patch, entries of tables whose originals only
        other entries hold, and methods that another class overrides.
        """
        applied, later = self.apply(torch), self.patch_on(torch).later
        found = {
            name: [place for place in places if place not in later]
            for name, places in applied.get("holders", {}).items()
            if name not in applied["overrides"]
        }
        return {
            name: places
            for name, places in found.items()
            if places and not (name.endswith("]") and all(place.endswith("]") for place in places))
        }

    def leaves_functions_unreached(self, torch: str) -> bool:
        """True if a function of the patch has no line that runs in any observed case."""
        observed = [self.observations(case)[1] for case in self.observed_cases(torch)]
        ran = {line for observation in observed for line in observation.ran}
        known = self.functions(torch).lines.values()
        return any(ran.isdisjoint(lines) for lines in known if lines)

    def is_unchanged(self, torch: str) -> bool:
        """True if a patch that is for other releases has no visible effect on this one.

        Visible effects are those of running the patch, and changed facts of a few workloads. If
        there are none, only these workloads are measured. Never true if the run names workloads or
        checks, or is nightly, or if the patch claims a scope or stubs.
        """
        run, claims = self.run, self.patch.claims
        if run.nightly or run.workloads or run.checks or claims.scope or claims.stubs:
            return False
        answer = self.once_a_run(f"unchanged {torch}", lambda: {"so": self._sees_no_change(torch)})
        return bool(answer["so"])

    def _sees_no_change(self, torch: str) -> bool:
        applied = self.apply(torch)
        if is_changed(applied) or applied.get("calls", True) or applied.get("package", True):
            return False
        if self.patch.claims.applies_to is None:
            is_for_this = not any(map(is_changed, map(self.apply, self.run.rows)))
        else:
            is_for_this = self.patch.is_claimed(torch)
        if is_for_this:
            return False  # the effect may show only in a compile
        few = self.few_workloads("kernels")
        sides = [self.observations(case) for case in self._all_cases(torch) if case.workload in few]
        return all(not one.failure and one.facts == other.facts for one, other in sides)

    def few_workloads(self, kind: str) -> list[str]:
        """The few workloads with this kind of check that are measured if nothing changes."""
        names = self.chosen_workloads(kind)
        own = [name for name in names if Path(self.workloads[name].path).parent != WORKLOADS]
        return [*own, *(name for name in _FEW if name in names)][: len(_FEW)] or names[:1]

    def observations(
        self, case: Case, *, measured: bool = False
    ) -> tuple[Observation, Observation]:
        """Return the facts of a workload as the pair (unpatched, patched).

        Unpatched facts that cannot change a verdict are taken from the record unless `measured`.
        """
        workload = self.workload(case.workload)
        # Only these cases count for coverage: single checks observe other cases, in any order.
        counts = case in self._counted_cases(case.torch)
        cover = counts and self.has_more_to_cover(case.torch)
        held = self.held(case.torch) if counts else {}
        patch = self.patch_on(case.torch)
        patched = self.runner.observe(case, workload, patch, cover=cover, held=held)
        if counts:
            ran = {*patched.ran, *patched.took, *patched.callers}
            self._ran.setdefault(case.torch, set()).update(ran)
        if measured or not self._is_as_recorded(patched):
            return self.observe_unpatched(case), patched
        if case not in self._compiled_once:  # else another check has noted it
            self._compiled_once.add(case)
            note_cost(self.runner.costs, torch=case.torch, do="observe", unasked=_AS_RECORDED)
        unpatched = replace(case, patch=None)
        facts, environment = patched.facts, patched.environment
        return Observation(case=unpatched, facts=facts, environment=environment), patched

    def acts_on(self, case: Case) -> bool:
        """True if the patch changes a fact of a workload, or if a line of the patch runs while the
        workload is compiled.

        Also true if lines cannot show it: for a diff, and for a patch that changes more than
        functions.
        """
        applied = self.apply(case.torch)
        functions = applied["replacements"]
        if (
            self.patch.diff
            or not functions
            or applied["effects"]
            or applied.get("edited")
            or not set(applied["changed"]) <= set(functions)
        ):
            return True
        unpatched, patched = self.observations(case)
        return bool(patched.failure or unpatched.facts != patched.facts or self.lines_run(case))

    def lines_run(self, case: Case) -> set[int]:
        """The lines of the patch that run while a case is compiled; all lines if the case fails
        while lines are recorded.
        """
        patched = self.observations(case)[1]
        counts = case in self._counted_cases(case.torch)
        if patched.ran or (counts and self.has_more_to_cover(case.torch)):
            return set(patched.ran)
        # No lines were recorded: the case does not count, or all lines had run before it.
        every = {line for lines in self.functions(case.torch).lines.values() for line in lines}
        return set(self._ask_facts(case, cover=True).get("ran", every))

    def _ask_facts(self, case: Case, **how: Any) -> Answer:
        workload = self.workload(case.workload)
        return self.ask_once(
            case.torch, workload.asks, case.device, workload=workload, patch=self.patch, **how
        )

    def _is_as_recorded(self, patched: Observation) -> bool:
        """True if the facts equal the record, and the patch makes no difference in the record.

        Never true for facts of a nightly run, of a release without records of its own, or of a
        real device: these are to be recorded. Never true if the project itself states what torch
        does, because a pull request may bring that record with the patch.
        """
        case, facts = patched.case, patched.facts
        if patched.failure or self.run.nightly or self.run.profile(case.device)["kind"] == "real":
            return False
        release, recorded, unpatched = self.records(patched)
        if recorded.known_failure or not recorded.recorded or self._golden_of(patched).states_torch:
            return False
        if recorded != unpatched or release != case.torch:
            return False
        names = {*facts, *recorded.facts}
        names -= not_requested(names, facts)
        return all(value_in(facts, name) == value_in(recorded.facts, name) for name in names)

    def records(self, observed: Observation) -> tuple[str, Expectation, Expectation]:
        """The release whose record a case is compared with, and the record of that release with and
        without the patch.
        """
        golden = self._golden_of(observed)
        release = release_for(golden, observed.case.torch)
        case = replace(observed.case, torch=release)
        recorded, unpatched = (
            expectation(golden, replace(case, patch=patch)) for patch in (self.patch.id, None)
        )
        return release, recorded, unpatched

    def _golden_of(self, observed: Observation) -> GoldenFile:
        """The records of a workload; for a real device, those of the profile that describes it."""
        own, calls_itself = self.run.project.profiles, observed.environment.get("device", "")
        device = profile_of(calls_itself, otherwise=observed.case.device, own=own)
        return self.golden(observed.case.workload, device)

    def is_accepted(self, observed: Observation, release: str) -> bool:
        """True if facts of the patch were accepted on a release, for the observed workload and its
        device.
        """
        of = self._golden_of(observed)
        return is_accepted(self._accepted, self.patch.id, release, of.workload, of.device)

    def observe_unpatched(self, case: Case) -> Observation:
        """The facts of a workload without the patch."""
        return self.runner.observe(replace(case, patch=None), self.workload(case.workload), None)

    def observe_otherwise(self, case: Case, **how: Any) -> Observation:
        """The facts of a workload with the patch, observed in the way that `how` gives."""
        answer = self._ask_facts(case, **how)
        facts = {fact: fact_from(value) for fact, value in answer.get("facts", {}).items()}
        return Observation(case=case, failure=failure_of(answer), facts=facts)

    def chosen_workloads(self, kind: str) -> list[str]:
        """The workloads with this kind of check: those that the run names; else the pre-merge ones,
        or all in a nightly run.

        A project's table may add workloads, and may choose among those that come with patchgate;
        it excludes none of the project's own.
        """
        named, listed = self.run.workloads, self.run.project.chosen_workloads
        of_kind = {name: one for name, one in self.workloads.items() if kind in one.checks}
        if named:
            return [name for name in of_kind if name in named]
        return [
            name
            for name, one in of_kind.items()
            if (self.run.nightly or one.premerge or name in listed)
            and (not listed or name in listed or Path(one.path).parent != WORKLOADS)
        ]

    def observed_cases(self, torch: str) -> list[Case]:
        """Every case whose facts this run needs on a release; few if the patch changes nothing."""
        few = self.few_workloads("kernels") if not self.only and self.is_unchanged(torch) else None
        cases = self._counted_cases(torch)
        return [case for case in cases if few is None or case.workload in few]

    def _counted_cases(self, torch: str) -> list[Case]:
        """The cases that count for coverage, even if only few of them are observed."""
        return [replace(case, torch=torch) for case in self.only] or self._all_cases(torch)

    def _all_cases(self, torch: str) -> list[Case]:
        pairs = list(product(self.chosen_workloads("kernels"), self.run.devices))
        symptom = self.patch.claims.symptom
        if symptom:
            pairs.append((symptom.workload, symptom.device))
        return [
            replace(self.case(torch), workload=workload, device=device)
            for workload, device in pairs
        ]
