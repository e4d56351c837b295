"""Can this environment be trusted, and how is a patch confined in it? A case with known facts runs
before all others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from patchgate.checks.framework.blame import Fault, fault_of
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, Verdicts, verdict_of
from patchgate.checks.framework.patch_outcome import does_not_run
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Code, Command, Failure, Verdict, read_codes
from patchgate.model.serialization import Answer, failure_of

FAMILY = "machine"
CODES = (
    *read_codes("""
PG901 torch could not be installed or started
    There is no working environment for this torch release.
    Why: Nothing was measured there.
    Fix: Read the reason. Run the same command again where the package index can be reached, or
    give an interpreter that has the whole of this torch: `--row TORCH=PYTHON`.
PG902 the sentinel case has wrong facts
    A tiny case with known, non-zero facts had other facts in this environment, or none.
    Why: With wrong counters every other result of this release is invalid.
    Fix: Compare the facts of the sentinel case: Inductor may have moved what the probe reads.
PG903 the sentinel case has its known facts
    The sentinel case gave exactly its known facts.
    Why: The facts of this release can be trusted.
    Fix: Nothing to do.
PG904 patchgate itself failed
    A check ended without a result: a defect in patchgate.
    Why: Nothing was judged there, and no answer is not green.
    Fix: Please report it with the output above and run.json of the results' folder.
PG905 the machine failed, not the patch
    A run was ended from outside (killed, disk full, no memory, no answer), also when tried again,
    or patchgate could not compare results that it had.
    Why: Such a failure does not count against the patch.
    Fix: Run again. If it persists, check disk, memory and limits.
PG907 the run ended before this check
    A signal, a full disk or a fault of patchgate ended the run, or the process that judged this
    check; or a file was edited during the run. What was red before the edit is exit code 1.
    Why: Checks that were not judged may be red.
    Fix: Run the same command again. It keeps the checks that are judged and judges the others.
PG908 how a patch is confined here
    The sandbox in which a patch is judged on this machine: own namespaces, Landlock, and read
    access only to what torch and the patch need.
    Why: A patch is untrusted code. What is missing lets it read files, reach the network or see
    other processes.
    Fix: Linux 6.12 or newer with user namespaces gives all of it; a container may forbid them
    (unshare, mount). With `--require-sandbox` no patch is run where anything is missing.
PG909 a kept answer was wrong
    A kept answer of an earlier run was measured again, at random. Two fresh answers agree with each
    other and differ from it. No kept answer is used any more.
    Why: Something that its key does not contain has changed: other results of this run may depend
    on such answers too.
    Fix: Run the same command again, which measures everything anew. Report it with what has changed
    on this machine since the earlier run.
"""),
    Code(
        code="PG906",
        title="needs a real device",
        what="The code of this workload depends on what runs on the device, or it needs more "
        "devices than"
        " there are here; a simulation cannot judge it.",
        why="A guess would pass or fail for the wrong reason.",
        fix="Run it on a machine with the GPU (`--device cuda`).",
        commands=(Command(name="gate", arguments=("PATCH", "--device", "cuda")),),
    ),
)
# A user namespace is not listed, because root needs none.
_NAMESPACES = ("mount", "pid", "ipc", "net")
verdict = partial(verdict_of, FAMILY)


@Check(axes=("torch", "device"), first=True, seconds=0.1)
def ask_sentinel(context: CheckContext, at: Instance) -> Verdicts:
    torch, device = at.case.torch, at.case.device
    return [sentinel_verdict(context, torch, device), *sandbox_verdicts(context, torch, device)]


def sandbox_verdicts(context: CheckContext, torch: str, device: str) -> list[Verdict]:
    """The verdicts on the sandbox of a patch on this device; empty if no child has answered."""
    is_real = context.run.profile(device)["kind"] == "real"
    case = Case(torch=torch, device=device) if is_real else Case(torch=torch)
    return judge_sandbox(
        case, context.sentinel(torch, device), required=context.run.require_sandbox
    )


def sentinel_verdict(context: CheckContext, torch: str, device: str) -> Verdict:
    """The verdict on the counters of this machine."""
    return judge_sentinel(
        Case(torch=torch, device=device, workload="sentinel"), context.sentinel(torch, device)
    )


def preconditions(context: CheckContext, torch: str, device: str) -> list[Verdict]:
    """The verdicts that keep a patch from being judged: the sentinel fails, a part of a required
    sandbox is missing, or the patch does not run. Empty if there are none.
    """
    sentinel = sentinel_verdict(context, torch, device)
    if sentinel.kind is not Kind.PASS:
        return [sentinel]
    if context.run.require_sandbox:
        refused = [
            one for one in sandbox_verdicts(context, torch, device) if one.kind is Kind.INFRA
        ]
        if refused:
            return refused
    failure = failure_of(context.apply(torch))
    return (
        [does_not_run(context.case(torch), failure, context.patch, context.run.again)]
        if failure
        else []
    )


def judge_sentinel(case: Case, answer: Answer) -> Verdict:
    """Return PG903 if every known fact is exact, PG902 if one differs, and the code of the failure
    if the sentinel failed.
    """
    failure = failure_of(answer)
    if failure:
        return verdict(_code_of(failure), Kind.INFRA, case, "", "known facts", failure.text)
    facts = answer["facts"]
    wrong = [
        f"{k} = {facts.get(k)}, not {v}" for k, v in answer["expected"].items() if facts.get(k) != v
    ]
    if wrong:
        return verdict("PG902", Kind.INFRA, case, "", "known facts", "; ".join(wrong))
    return verdict(
        "PG903", Kind.PASS, case, "", "known facts", f"{len(answer['expected'])} as known"
    )


def _code_of(failure: Failure) -> str:
    """Return the code of a failure without a patch: PG901 if torch did not start, PG905 if the
    machine is too small, and PG902 if the probe did not understand torch.
    """
    is_import = failure.signature.startswith(("ImportError", "ModuleNotFoundError"))
    # An import error raised in torch: a file of torch lacks another one. If the probe lacks a file,
    # torch may have moved it.
    if failure.stage == "server" or (is_import and failure.raised_at):
        return "PG901"
    return "PG905" if fault_of(failure, None) is Fault.MACHINE else "PG902"


def judge_sandbox(case: Case, answer: Answer, *, required: bool) -> list[Verdict]:
    """Return PG908. If a part of the sandbox is missing, it is a note, but a failure of the machine
    if all parts are `required`: the machine is then unfit for a patch.
    """
    if failure_of(answer):
        return []
    own = answer["confinement"]
    missing = [name for name in _NAMESPACES if name not in own["namespaces"]]
    parts = [f"namespaces: {', '.join(own['namespaces']) or 'none'}"]
    parts.append(f"Landlock {own['landlock']}" if own["landlock"] else "no Landlock")
    parts.append("reads what it needs" if own["reads"] else "reads everything")
    is_complete = not missing and own["landlock"] and own["reads"]
    kind = Kind.PASS if is_complete else Kind.INFRA if required else Kind.NOTE
    expected = f"namespaces: {', '.join(_NAMESPACES)}; Landlock; reads what it needs"
    return [verdict("PG908", kind, case, "", expected, "; ".join(parts), item="sandbox")]


def judge_environment(torch: str, problem: str) -> Verdict:
    """PG901: the release has no environment."""
    case = Case(torch=torch)
    return verdict("PG901", Kind.INFRA, case, "", "a working torch", problem, item="environment")


def judge_contradicted(torch: str, question: str) -> Verdict:
    """PG909: fresh answers of this run contradict a kept answer."""
    actual = f"two fresh answers to `{question}` differ from it"
    case = Case(torch=torch)
    return verdict("PG909", Kind.INFRA, case, "", "the kept answer", actual, item="kept answers")


def judge_broken(item: str, expected: str, actual: str) -> Verdict:
    """PG904: a step of patchgate ended without a verdict."""
    return verdict("PG904", Kind.INFRA, Case(torch=""), "", expected, actual, item=item)


def judge_stopped(family: str, at: Instance, name: str, reason: str) -> Verdict:
    """PG907: the run ended before this instance of a check was judged."""
    item = at.case.name if at.case.workload else name
    # Several checks of a family may judge one case: each has a result of its own.
    fact = f"{name} {at.size}".rstrip() if at.case.workload else at.size
    return replace(_stopped(at.case, fact, item, reason), check=family)


def judge_unstarted(case: Case, reason: str) -> Verdict:
    """PG907: the run of a patch on a release never began."""
    return _stopped(case, "", "run", reason)


def judge_edited(patch: str, file: str, *, is_red: bool) -> Verdict:
    """PG907: a file was edited during the run, so the rest is not judged. `is_red` is true if a
    verdict was red before the edit, so that the run has its answer.
    """
    edited = judge_unstarted(Case(torch="", patch=patch), f"{file} was edited during the run")
    advice = "Run the same command again, which judges the files as they are now."
    return replace(edited, kind=Kind.INFRA if is_red else edited.kind, advice=advice)


def _stopped(case: Case, fact: str, item: str, reason: str) -> Verdict:
    actual = f"not judged: {reason}"
    stopped = verdict("PG907", Kind.STOPPED, case, fact, "a result", actual, item=item)
    return replace(stopped, brief=reason)


def judge_undeviced(check: str, case: Case, reason: str, needed: str = "a real device") -> Verdict:
    """PG906: this machine lacks what the case needs; nothing is guessed."""
    return replace(verdict("PG906", Kind.NOTE, case, "", needed, reason), check=check)
