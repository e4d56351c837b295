"""Does the patch do the same in a user's script, where no part of patchgate is loaded?"""

from __future__ import annotations

import random
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Fault,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdict,
    Verdicts,
    failure_of,
    failure_text,
    fault_of,
    read_codes,
    verdict_of,
)
from patchgate.checks.parity import SEEDS, comparison_failure, outputs_of
from patchgate.model.facts import changed_facts

FAMILY = "gate"
CODES = read_codes("""
PG225 behaves differently when judged
    One workload was compiled and run by a user's script, with the patch, another seed and no part
    of patchgate in the process. It failed, left fewer modules of generated code, or its generated
    code or outputs differ from those of the judged run, and are not those of torch without the
    patch either.
    Why: The judged behaviour is not what users get; every other result on this release may be
    invalid.
    Fix: Look for code in the patch that depends on its process: loaded modules, callers, arguments,
    environment variables, seeds, a trace function.
PG226 not compared with a user's script
    No workload could be compiled and run by a script without patchgate in its process, or torch
    without the patch behaves differently there.
    Why: It is unknown if the patch behaves the same outside of patchgate.
    Fix: Read the reason, and correct what fails. A diff, a part of a file, and a patch that uses
    stubs, are never
    compared: they cannot run without patchgate.
PG227 depends on the order of imports
    In a user's script, where nothing of the compiler is imported before the patch, one workload
    gets the code and the outputs of torch without the patch; or importing the patch changes further
    settings of the process there.
    Why: Users who import the patch first get another compiler than those who import it last.
    Fix: Import in the patch what it changes, and let it set only what it means to set.
""")
verdict = partial(verdict_of, FAMILY, item="plain run")
# A part of the probe's error message.
_NEEDS_DEVICE = "needs a real device"
# The most workloads that are observed in search of one that the patch changes. Other checks use the
# same observations.
_LOOKED_AT = 4
# Seeds that no patch can know.
_SEEDS = range(1 << 20, 1 << 31)


@Check(believes=SIMULATED, ahead=True, seconds=25)
def ask_plain_run(context: CheckContext, at: Instance) -> Verdicts:
    torch, patch = at.case.torch, context.patch
    applied = context.apply(torch)
    workload = _workload(context, torch)
    if "failure" in applied or not workload:
        raise NothingToJudge("does not run, or no workload runs on the CPU")
    if patch.stubs or applied["stubbed"] or patch.diff or patch.claims.part_of:
        actual = (
            "a diff, a part of a file, and a patch that uses stubs, cannot run without patchgate"
        )
        return [verdict("PG226", Kind.ASSUMED, at.case, "", "a script", actual)]
    case = replace(at.case, device="cpu", workload=workload)
    seed = secrets.choice(_SEEDS)
    with TemporaryDirectory() as folder:
        judged, plain = _sides(context, case, patch, seed, Path(folder, "patched"))
        if failure_of(judged) or not differences(judged, plain):
            return [judge_plain_run(at.case, patch, workload, applied, (judged, plain))]
        without = _sides(context, case, None, seed, Path(folder, "unpatched"))
        unpatched = _is_unpatched(context, torch, plain, without, Path(folder))
    return [
        judge_plain_run(
            at.case, patch, workload, applied, (judged, plain), without, unpatched=unpatched
        )
    ]


def _workload(context: CheckContext, torch: str) -> str:
    """A workload that the patch changes, if it changes any of the first few; else a random
    workload, which the patch cannot know.
    """
    if context.only:
        return context.only[0].workload
    names = [
        name for name in context.chosen_workloads("parity") if not context.workload(name).training
    ]
    random.SystemRandom().shuffle(names)
    if len(names) == 1 or context.is_unchanged(
        torch
    ):  # as with `--workload`: nothing is observed first
        return names[0]
    cases = {case.workload: case for case in context.observed_cases(torch) if case.device == "cpu"}
    for name in [name for name in names if name in cases][:_LOOKED_AT]:
        unpatched, patched = context.observations(cases[name])
        if not patched.failure and changed_facts(unpatched.facts, patched.facts):
            return name
    return names[0] if names else ""


def _files(folder: Path) -> tuple[Path, Path]:
    """The files for the outputs of the script and of the gate's own run."""
    return folder / "script", folder / "judged"


def _sides(
    context: CheckContext, case: Case, patch: Patch | None, seed: int, folder: Path
) -> tuple[Answer, Answer]:
    """The answers of the gate's own run and of the script; their outputs are left in `folder`."""
    folder.mkdir()
    files = _files(folder)
    ask = partial(context.ask_plain_run, case, patch, files[0], seed)
    # The script needs no server with torch, so it runs while the server warms up, unless the script
    # would have to build everything itself.
    with ThreadPoolExecutor(1) as beside:
        early = beside.submit(ask) if context.was_built(case, patch) else None
        judged = outputs_of(context, case, "run", patch, files[1], seeds=(SEEDS[0], seed))
        plain = early.result() if early else {} if failure_of(judged) else ask()
    if not plain or failure_of(plain):
        return judged, plain
    # Another process compares the files, because the script must not see the gate's outputs.
    compared = context.differences(case.torch, "differ runs", *files)
    failure = comparison_failure(compared)
    return judged, {"failure": vars(failure)} if failure else plain | compared["metrics"]


def _is_unpatched(
    context: CheckContext, torch: str, plain: Answer, without: tuple[Answer, Answer], folder: Path
) -> bool:
    """True if the script with the patch has the code and the outputs of torch without it."""
    if failure_of(plain) or any(map(failure_of, without)) or plain["code"] != without[1]["code"]:
        return False
    script, unpatched = _files(folder / "patched")[0], _files(folder / "unpatched")[1]
    compared = context.differences(torch, "differ runs", script, unpatched)
    return not comparison_failure(compared) and compared["metrics"]["differing"] == 0


def _missing(judged: Answer, plain: Answer) -> int:
    """The number of modules of generated code in the gate's own run that the script lacks."""
    return max(0, len(judged.get("code", ())) - len(plain.get("code", ())))


def differences(judged: Answer, plain: Answer, usual: int = 0) -> list[str]:
    """The differences between the results of the script and of the gate's own run.

    The gate's run may compile more modules, for other values. `usual` is the number of modules that
    a script without the patch lacks; the script with the patch may lack as many.
    """
    failure = failure_of(plain)
    if failure:
        return [f"the script fails: {failure.signature}"]
    found, other = [], len({*plain["code"]} - {*judged["code"]})
    if _missing(judged, plain) > usual:
        found.append(
            f"the script left {len(plain['code'])} of {len(judged['code'])} modules of generated "
            "code"
        )
    if other:
        found.append(f"{other} of {len(plain['code'])} modules of generated code differ")
    share = plain["differing"]
    return found + ([f"{share:.1%} of the outputs differ bit for bit"] if share else [])


def _unseen_settings(applied: Answer, plain: Answer) -> list[str]:
    """The settings that importing the patch changed only in the script."""
    effects = {f"{effect['kind']} {effect['name']}" for effect in applied["effects"]}
    effects |= {"threads" for effect in applied["effects"] if effect["kind"] == "threads"}
    return [f"importing it changed {name}" for name in plain["changed"] if name not in effects]


def _alone(sides: tuple[Answer, Answer], usual: int) -> list[str]:
    """The differences between a script and the gate's run if both run without the patch."""
    failure = failure_of(sides[0])
    return [failure.signature] if failure else differences(*sides, usual)


def judge_plain_run(
    case: Case,
    patch: Patch,
    workload: str,
    applied: Answer,
    patched: tuple[Answer, Answer],
    without: tuple[Answer, Answer] | None = None,
    *,
    unpatched: bool = False,
) -> Verdict:
    """PG225 if results differ between the gate's run and a script, but do not differ `without` the
    patch.

    `unpatched` is true if the script with the patch gives the results of torch without it: the
    difference then comes from the order of imports (PG227).
    """
    expected = f"the same code and outputs of {workload} as inside the gate"
    uncompared = _uncompared(case, workload, expected, *patched)
    if uncompared:
        return uncompared
    usual = _missing(*without) if without else 0
    found = differences(*patched, usual)
    if not found:
        settings = _unseen_settings(applied, patched[1])
        if settings:
            return verdict("PG227", Kind.WARNING, case, "", expected, tuple(settings))
        actual = "a script without patchgate has the same"
        return verdict("PG211", Kind.PASS, case, "", expected, actual)
    if unpatched:
        actual = (
            "in a script that imports the patch first, code and outputs are those of torch "
            "without it"
        )
        return verdict("PG227", Kind.WARNING, case, "", expected, actual)
    alone = _alone(without, usual) if without else []
    if alone:
        actual = f"torch without the patch differs too: {'; '.join(alone)}"
        return verdict("PG226", Kind.UNMEASURED, case, "", expected, actual)
    place = patch.place
    share = patched[1].get("differing", 0.0)
    return verdict("PG225", Kind.REGRESSED, case, "", expected, tuple(found), place, share=share)


def _uncompared(
    case: Case, workload: str, expected: str, judged: Answer, plain: Answer
) -> Verdict | None:
    """PG226 if a run failed for a reason that says nothing of a difference; None otherwise."""
    for failure in map(failure_of, (judged, plain)):
        if fault_of(None, failure) is Fault.MACHINE:
            return verdict("PG226", Kind.INFRA, case, "", expected, failure_text(None, failure))
    failure = failure_of(judged)
    if failure:
        actual = f"with the patch {workload} does not compile or run: {failure.signature}"
        advice = "Correct that failure first; then this is compared."
        return verdict(
            "PG226", Kind.UNMEASURED, case, "", expected, actual, failure.where, advice=advice
        )
    failure = failure_of(plain)
    if failure and _NEEDS_DEVICE in failure.signature:
        actual = f"the script has no GPU, and the patch asks for one: {failure.signature}"
        return verdict("PG226", Kind.ASSUMED, case, "", expected, actual, failure.where)
    return None
