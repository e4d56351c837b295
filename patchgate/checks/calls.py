"""Is each replacement called, and do all lines and branches of the patch run?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from patchgate.checks.cache import compile_cached
from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Observation,
    Patch,
    Verdict,
    Verdicts,
    display_path,
    failure_of,
    read_codes,
    verdict_of,
)
from patchgate.checks.framework.context import Functions
from patchgate.checks.holders import assignment_place
from patchgate.checks.samples import sampled, sampled_names
from patchgate.model.serialization import ran_of

FAMILY = "reach"
_WORKLOAD = (
    "Add a workload that runs them: a file `workloads/NAME.py` next to the patch (for every patch "
    "of the project in"
    ' `workloads` of its table) with `DTYPE = "float32"`, `CHECKS = ("kernels",)` and'
    " `build(device, dtype, scale)`, which returns a module and its inputs. The condition in the "
    "patch shows which"
    " inputs it needs: a large tensor, an integer dtype, a device, a release. Then run the gate "
    "again, and accept the"
    " facts. Or remove the code."
)
CODES = read_codes(f"""
PG803 the replacement was never called
    No line of the replacement ran in any workload of the suite on this torch. It is a note: the
    shipped workloads are few, and do not call everything.
    Why: Nothing that was judged here shows what the replacement does.
    Fix: Add a workload that reaches it, a file `workloads/NAME.py` next to the patch with
    `build(device, dtype, scale)` (`patchgate explain workloads`), or drop the patch.
PG805 lines of the patch that never ran
    These lines are in functions of the patch, and no workload of the suite ran them on this torch.
    Why: Lines that never ran were never judged.
    Fix: {_WORKLOAD}
PG807 branches of the patch that were never taken
    These conditions and loops of the patch had only one outcome in every workload of the suite on
    this torch: never true, never false, never entered or never left.
    Why: The other outcome was never judged, even where it has no line of its own.
    Fix: {_WORKLOAD}
PG809 reach could not be judged
    The child process failed without the patch too, or the machine failed, or no workload compiled.
    Why: Unknown is not green. A failure of torch is red, because it needs attention; a failure of
    the machine is not.
    Fix: Read the failure, and run the gate again.
""")
verdict = partial(verdict_of, FAMILY)


@Check(believes=SIMULATED, seconds=0.2)
def ask_called(context: CheckContext, at: Instance) -> Verdicts:
    cases = context.observed_cases(at.case.torch)
    if not cases:
        raise NothingToJudge("no workload of the run records which lines run")
    return called(context, at.case.torch, cases)


def called(context: CheckContext, torch: str, cases: Sequence[Case]) -> list[Verdict]:
    """The verdicts on the lines and branches of the patch that ran in these cases, all on one
    release.
    """
    observed = [context.observations(case)[1] for case in cases]
    applied, functions = context.apply(torch), context.functions(torch)
    case, patch = context.case(torch), context.patch
    if applied["replacements"] and context.leaves_functions_unreached(torch):
        observed += [_lines_run(each, _with_caches(context, each)) for each in cases[:1]]
        if sampled_names(applied)["names"] and (answer := sampled(context, torch)["patched"]):
            observed.append(_lines_run(case, answer))
    narrowed = context.run.narrowed
    return list(judge_called(case, patch, applied, functions, observed, narrowed))


def _with_caches(context: CheckContext, case: Case) -> Answer:
    """Compile a case with the caches on: some functions of a patch are called only to compute a
    cache key.
    """
    with tempfile.TemporaryDirectory() as folder:
        # A subfolder, because precompiled headers are written next to the cache.
        cache = Path(folder, "cache")
        return compile_cached(context, case, context.patch.path, cache, cover=True)


def _lines_run(case: Case, answer: Answer) -> Observation:
    return Observation(case=case, failure=failure_of(answer), **ran_of(answer))


def judge_called(
    case: Case,
    patch: Patch,
    applied: Answer,
    functions: Functions,
    observed: Iterable[Observation],
    narrowed: str = "",
) -> Verdicts:
    """PG803, PG805 and PG807 from the lines of the patch that ran under the workloads.

    `narrowed` is the option that limits the run to some workloads or devices. Other workloads
    or devices may call a replacement.
    """
    say = partial(verdict, item="calls")
    observed = list(observed)
    compiled = [observation for observation in observed if observation.failure is None]
    ran = {line for observation in compiled for line in observation.ran}
    ran |= {line for observation in observed if (line := _line_that_failed(observation))}
    replacements = applied["replacements"]
    if replacements and not compiled:
        expected, actual = "a workload that compiles", "no workload compiles with the patch"
        yield say("PG809", Kind.UNMEASURED, case, "", expected, actual)
        return
    dead = sorted(name for name, lines in replacements.items() if not ran.intersection(lines))
    never: tuple[str, ...] = (f"no line of it ran in {len(compiled)} cases",)
    if narrowed:
        never += (f"the run was narrowed ({narrowed}): another case may call it",)
    for name in dead:
        place = assignment_place(patch, name)
        yield say("PG803", Kind.WARNING, case, f"of {name}", "called", never, place)
    if not replacements:
        actual = "no function of the patch replaces anything here"
        yield say("PG806", Kind.NOTE, case, "", "called", actual)
    elif not dead:
        yield say("PG806", Kind.PASS, case, "", "called", f"{len(replacements)} replacements")
    seen = f"in {len(compiled)} workloads"
    if narrowed:
        seen += f", as the run was narrowed ({narrowed})"
    yield from _uncovered(case, patch, functions, compiled, seen)


def _line_that_failed(observation: Observation) -> int | None:
    """The line of the patch in which the compile failed. It ran, although no coverage shows it."""
    _, _, line = ((observation.failure and observation.failure.where) or "").rpartition(":")
    return int(line) if line.isdecimal() else None


def _uncovered(
    case: Case, patch: Patch, functions: Functions, observed: Sequence[Observation], seen: str
) -> Verdicts:
    """PG805 and PG807 for lines and branches that never ran, only in functions that were called: a
    function that was never called may be for another release.
    """
    ran = {line for observation in observed for line in observation.ran}
    taken = {outcome for observation in observed for outcome in observation.took}
    for name, lines in sorted(functions.lines.items()):
        if not ran.intersection(lines):
            continue
        note = partial(verdict, kind=Kind.NOTE, case=case, fact=f"of {name.split(':')[0]}")
        file, never = display_path(patch.path), sorted(set(lines) - ran)
        if never:
            actual = f"lines {', '.join(map(str, never))} never ran {seen}: add a workload"
            where = f"{file}:{never[0]}"
            yield note("PG805", expected="all run", actual=actual, where=where, item="lines")
        # If the condition itself never ran, its line is named above.
        outcomes = [each for each in functions.outcomes.get(name, ()) if each[0] in ran]
        untaken = [each for each in outcomes if each not in taken]
        if untaken:
            told = ", ".join(f"line {line} was never {word}" for line, word in untaken)
            actual, where = f"{told}: add a workload", f"{file}:{untaken[0][0]}"
            yield note("PG807", expected="all taken", actual=actual, where=where, item="branches")
