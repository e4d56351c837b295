"""Is a workload compiled as often with the patch: called again, as another instance, with another
size or state?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Patch,
    Verdicts,
    failure_of,
    judge_failed,
    read_codes,
    verdict_of,
)

FAMILY = "recompile"
CODES = read_codes("""
PG410 compiled no more often
    A workload that is called again, as another instance or with another size is compiled as often
    as without the patch.
    Why: A compile takes seconds, and after the recompile limit Dynamo runs the function uncompiled.
    Fix: Nothing to do.
PG411 compiled again
    Another call, instance, size or number compiles a graph only with the patch. This happens in a
    workload, in a sample of an operator that the patch replaces, or in a small program on which it
    acts.
    Why: Users wait for a compile of each layer until the recompile limit is reached, and run the
    layers after it uncompiled.
    Fix: TORCH_LOGS=recompiles names the guard that failed. Keep what differs from instance to
    instance (a name, a number, an id) out of what is traced.
PG412 sizes became symbolic
    With the patch, a graph was compiled for symbolic sizes; without it, the sizes are constants.
    Why: Users whose layers differ in a size get code for symbolic sizes, which can be slower and
    may not compile at all.
    Fix: Compile each instance by itself, or pin the sizes: `torch.compile(..., dynamic=False)`.
PG413 does not run when called again
    With the patch, a workload failed when it was called several times; without it, it runs.
    Why: Users get this failure in any model that calls a layer more than once.
    Fix: Read the failure.
PG414 not compiled again in another state
    With the patch a workload that is called with another default dtype runs what was compiled
    before; unpatched, it is compiled again.
    Why: Users who change the default dtype get the results of code that was compiled for another
    one.
    Fix: Keep the guard on the state of the process, or change what it asks only where no result
    depends on it.
PG419 recompiles could not be counted
    The workload failed without the patch, so torch itself has changed; or the machine failed.
    Why: Without an unpatched side the patch cannot be judged. A failure of torch is red, because it
    needs attention; a failure of the machine is not.
    Fix: Read the failure, and run the gate again.
""")
verdict = partial(verdict_of, FAMILY)
Counts = Mapping[str, int]
FIRST, SIZE, STATE = "first call", "another size", "another state"


@Check(
    axes=("torch", "device", "workload"),
    workloads="recompile",
    devices=lambda run: ["cpu"],
    unchanged="none",
)
def ask_recompile(context: CheckContext, at: Instance) -> Verdicts:
    workload = context.workload(at.case.workload)
    unpatched, patched = (
        context.ask_once(at.case.torch, "recompiles", "cpu", workload=workload, patch=patch)
        for patch in (None, context.patch)
    )
    return judge_recompiles(at.case, context.patch, unpatched, patched)


def judge_recompiles(case: Case, patch: Patch, unpatched: Answer, patched: Answer) -> Verdicts:
    """One verdict for each step in which more was compiled than without the patch; PG410 if there
    is no such step.

    An additional graph in the first call is a graph break, which the graph check judges.
    """
    place = patch.place
    sides = failure_of(unpatched), failure_of(patched)
    failed = judge_failed(
        FAMILY, ("PG413", "PG419"), case, sides, "runs, as unpatched", place=place
    )
    if failed:
        yield failed
        return
    ways = patched["counts"]
    grown = [step for way in ways for step in _more(unpatched["counts"][way], ways[way], way)]
    for code, step, expected, actual in grown:
        yield verdict(code, Kind.REGRESSED, case, step, expected, actual, place)
    if not grown:
        graphs = sum(counts["graphs"] for counts in ways["compiled"].values())
        actual = f"{graphs} graphs in {len(ways['compiled'])} steps"
        yield verdict("PG410", Kind.PASS, case, "", "compiled no more often than unpatched", actual)


def _more(
    unpatched: Mapping[str, Counts], patched: Mapping[str, Counts], way: str
) -> Iterator[tuple[str, ...]]:
    """Yield the code, the step, and the expected and actual counts for each step that has more
    graphs or more symbolic graphs with the patch; for the step STATE, also if it has fewer graphs.
    """
    # The number of graphs that the patch adds to the first call by a compile or a split of its own.
    # Each of them is compiled once more for another size or state.
    own = max(0, patched[FIRST]["graphs"] - unpatched[FIRST]["graphs"])
    for step, counts in patched.items():
        allowed = unpatched[step]["graphs"] + (own if step in (SIZE, STATE) else 0)
        if step != FIRST and counts["graphs"] > allowed:
            yield (
                "PG411",
                f"{way}, {step}",
                f"at most {allowed} graphs compiled",
                f"{counts['graphs']} compiled",
            )
        if step == STATE and counts["graphs"] < unpatched[step]["graphs"]:
            expected = f"{unpatched[step]['graphs']} graphs compiled, as unpatched"
            yield "PG414", f"{way}, {step}", expected, f"{counts['graphs']} compiled"
        if counts["symbolic"] > unpatched[step]["symbolic"]:
            expected = f"{unpatched[step]['symbolic']} graphs with symbolic sizes"
            yield "PG412", f"{way}, {step}", expected, f"{counts['symbolic']} of {counts['graphs']}"
