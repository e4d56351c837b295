"""Does the patch do the same in a user's script, where no part of patchgate is loaded?"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.checks.framework.context import SIMULATED, CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, verdict_of
from patchgate.checks.parity import SEEDS, outputs_of
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Kind, Verdict, read_codes
from patchgate.model.serialization import Answer, failure_of

FAMILY = "gate"
CODES = read_codes("""
PG225 behaves differently when judged
    One workload was compiled and run by a user's script, with the patch, another seed and no part of patchgate in the
    process. The generated code, the outputs, or the settings that the import changed differ from those of the judged
    run.
    Why: The judged behaviour is not what users get; every other verdict on this release may be invalid.
    Fix: Look for code in the patch that depends on its process: loaded modules, callers, arguments, environment
    variables, seeds, a trace function. If there is none, look at the order of imports.
PG226 not compared with a user's script
    No workload could be compiled and run by a script without patchgate in its process, or torch without the patch
    behaves differently there.
    Why: Whether the patch behaves the same outside of patchgate is unknown.
    Fix: Read the reason, and correct what fails. A diff, a part of a file, and a patch that uses stubs, are never
    compared: they cannot run without patchgate.
""")
verdict = partial(verdict_of, FAMILY, item="plain run")
# So many workloads are looked at for one that the patch changes. Other checks have use for the same observations.
_LOOKED_AT = 4
# Seeds that no patch can know.
_SEEDS = range(1 << 20, 1 << 31)


@Check(believes=SIMULATED, ahead=True, seconds=25, unchanged="PG211")
def ask_plain_run(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    torch, patch = at.case.torch, context.patch
    applied = context.apply(torch)
    workload = _workload(context, torch)
    if "failure" in applied or not workload:
        raise NothingToJudge("does not run, or no workload runs on the CPU")
    if patch.claims.stubs or patch.diff or patch.claims.part_of:
        actual = "a diff, a part of a file, and a patch that uses stubs, cannot run without patchgate"
        return [verdict("PG226", Kind.ASSUMED, at.case, "", "a script", actual)]
    case = replace(at.case, device="cpu", workload=workload)
    seed = secrets.choice(_SEEDS)
    judged, plain = _sides(context, case, patch, seed)
    if not failure_of(judged) and differences(applied, judged, plain):
        without = _sides(context, case, None, seed)
        return [judge_plain_run(at.case, patch, workload, applied, (judged, plain), without)]
    return [judge_plain_run(at.case, patch, workload, applied, (judged, plain))]


def _workload(context: CheckContext, torch: str) -> str:
    """One that the patch changes, where it changes any of the first few, or any; the patch cannot know which."""
    if context.only:
        return context.only[0].workload
    names = [name for name in context.chosen_workloads("parity") if not context.workload(name).training]
    if len(names) == 1:  # as with `--workload`: nothing is observed first
        return names[0]
    random.SystemRandom().shuffle(names)
    cases = {case.workload: case for case in context.observed_cases(torch) if case.device == "cpu"}
    for name in [name for name in names if name in cases][:_LOOKED_AT]:
        unpatched, patched = context.observations(cases[name])
        if not patched.failure and unpatched.facts != patched.facts:
            return name
    return names[0] if names else ""


def _sides(context: CheckContext, case: Case, patch: Patch | None, seed: int) -> tuple[Answer, Answer]:
    """The answers of the gate's own run and of the script."""
    with TemporaryDirectory() as folder:
        files = Path(folder, "script"), Path(folder, "judged")
        ask = partial(context.ask_plain_run, case, patch, files[0], seed)
        # The script needs no server with torch: it runs while that warms up, where it would not build all by itself.
        with ThreadPoolExecutor(1) as beside:
            early = beside.submit(ask) if context.was_built(case, patch) else None
            judged = outputs_of(context, case, "run", patch, files[1], seeds=(SEEDS[0], seed))
            plain = early.result() if early else {} if failure_of(judged) else ask()
        if not plain or failure_of(plain):
            return judged, plain
        # The script must not see the other file, so it is another process that compares them.
        compared = context.differences(case.torch, "differ runs", *files)
        return judged, compared if failure_of(compared) else plain | compared["metrics"]


def differences(applied: Mapping[str, Any], judged: Answer, plain: Answer) -> list[str]:
    """What the script has otherwise than the gate's own run."""
    failure = failure_of(plain)
    if failure:
        return [f"the script fails: {failure.signature}"]
    effects = {f"{effect['kind']} {effect['name']}" for effect in applied["effects"]}
    effects |= {"threads" for effect in applied["effects"] if effect["kind"] == "threads"}
    unseen = [name for name in plain["changed"] if name not in effects]
    found = [f"importing it changed {name}" for name in unseen]
    other = len({*plain["code"]} - {*judged["code"]})
    found += [f"{other} of {len(plain['code'])} modules of generated code differ"] if other else []
    share = plain["differing"]
    return found + ([f"{share:.1%} of the outputs differ bit for bit"] if share else [])


def _alone(sides: tuple[Answer, Answer]) -> list[str]:
    """What torch does otherwise in a script without the patch."""
    failure = failure_of(sides[0])
    return [failure.signature] if failure else differences({"effects": []}, *sides)


def judge_plain_run(
    case: Case,
    patch: Patch,
    workload: str,
    applied: Mapping[str, Any],
    patched: tuple[Answer, Answer],
    unpatched: tuple[Answer, Answer] | None = None,
) -> Verdict:
    """PG225 where the patch makes a difference between the gate's run and a script, which torch alone does not."""
    expected = f"the same code and outputs of {workload} as inside the gate"
    failure = failure_of(patched[0])
    if failure:
        actual = f"with the patch {workload} does not compile or run: {failure.signature}"
        advice = "Correct that failure first; then this is compared."
        return verdict("PG226", Kind.UNMEASURED, case, "", expected, actual, failure.where, advice=advice)
    found = differences(applied, *patched)
    if not found:
        return verdict("PG211", Kind.PASS, case, "", expected, "a script without patchgate has the same")
    alone = _alone(unpatched) if unpatched else []
    if alone:
        return verdict(
            "PG226", Kind.UNMEASURED, case, "", expected, f"torch without the patch differs too: {'; '.join(alone)}"
        )
    return verdict("PG225", Kind.REGRESSED, case, "", expected, "; ".join(found), f"{display_path(patch.path)}:1")
