"""Do the backends and graph passes that the patch offers compute what eager mode computes? On the
CPU.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdict,
    Verdicts,
    display_path,
    failure_of,
    judge_failed,
    read_codes,
    verdict_of,
)
from patchgate.checks.parity import comparison_failure, judge_numbers, with_own_rounding

FAMILY = "parity"
CODES = read_codes("""
PG531 an offered backend or pass fails
    A backend that the patch registers, or that its project names as an entry point, raises an
    exception for a workload or a small program that eager mode runs. Or a pass over graphs raises
    one, or leaves a graph that `Graph.lint` refuses. It is a note if a line of the patch itself
    raises it (`raise`, `assert`), and for NotImplementedError.
    Why: Users who choose this backend, or run this pass, get an exception in place of a compiled
    model.
    Fix: Read the failure; it names the workload. Raise an exception that says so for what is not
    supported.
PG532 an offered backend or pass computes other numbers
    With the backend, or after the pass has changed the graph, the error against float64 is more
    than twice that of eager mode (`error_factor` sets another factor). Or two equal runs differ; or
    NaN, infinities or shapes differ for special inputs or for other sizes; or small programs
    differ, also a model in training with other weights in its next call. A manifest that claims
    `numerics = "changes"` allows another error.
    Why: Users who choose this backend, or run this pass, get wrong results with no error message.
    Fix: Run the workload with and without it. Look for arguments, sizes and users of a node that it
    does not look at.
PG533 a pass leaves wrong metadata
    A node of a graph that the pass has changed has a `meta["val"]` of another dtype or shape than
    the node computes.
    Why: Users who run another pass after it, or compile its graph, get code for another dtype or
    shape.
    Fix: Set `meta["val"]` of each new or changed node, or run
    `torch.fx.passes.fake_tensor_prop.FakeTensorProp` last.
PG534 an offered backend or pass was not judged in full
    The backend or pass refuses this workload or its special inputs, changes none of its graphs,
    needs a device, changes its own result when it is run once more, leaves nodes without
    `meta["val"]`, or does not recompile the module.
    Why: On this workload its numbers say little. Or users who run it twice, or another pass after
    it, may get other results.
    Fix: Read the reason. A workload of your own that it acts on is judged too
    (`patchgate explain workloads`).
PG535 as in eager mode
    The workload was compiled with an offered backend, or run as an offered pass leaves its graphs,
    without a fault.
    Why: A backend or a pass is used by its name, so that no other check runs it.
    Fix: Nothing to do.
""")
verdict = partial(verdict_of, FAMILY)
# Fault of a run, as the probe names it -> the code and the kind of the verdict.
_FAULTS = {"raises": ("PG531", Kind.REGRESSED), "metadata": ("PG533", Kind.REGRESSED)}
# An exception by which code may refuse special inputs and sizes. Python's own exceptions, as for a
# missing name or key, are mistakes.
_REFUSES = re.compile(
    r"raises (?!AttributeError|IndexError|KeyError|NameError|TypeError|UnboundLocal|ZeroDivision)"
)
# Overflow depends on the precision of intermediate results, which a backend chooses.
_OVERFLOWS = "very large"
# After one of these faults there are no outputs to compare.
_ENDED = {"raises", "refuses", "unmeasured"}
_FAILED = ("PG531", "PG509")


@Check(
    axes=("torch", "device", "workload"),
    workloads="parity",
    devices=lambda run: ["cpu"],
    seconds=0.2,
)
def ask_offers(context: CheckContext, at: Instance) -> Verdicts:
    case, patch = at.case, context.patch
    offers = context.apply(case.torch).get("offers", ())
    workload = context.workload(case.workload)
    if not offers or workload.training or not patch.is_claimed(case.torch):
        raise NothingToJudge(
            "the patch offers no backend and no pass, or not here, or this is the training of "
            "another"
        )
    with TemporaryDirectory() as folder:
        files = Path(folder, "unpatched"), Path(folder, "patched")
        ask = partial(context.ask, case.torch, "offers", "cpu", workload=workload)
        eager = ask(patch=None, offers=["backend eager"], outputs=str(files[0]))
        patched = ask(patch=patch, offers=offers, outputs=str(files[1]), compiles=len(offers))
        failed = judge_failed(
            FAMILY, _FAILED, case, (failure_of(eager), failure_of(patched)), "runs"
        )
        if failed:
            return [failed]
        if eager["runs"][0]["faults"]:
            raise NothingToJudge("Dynamo cannot compile the workload without the patch")
        verdicts: list[Verdict] = []
        for number, (offer, run) in enumerate(zip(offers, patched["runs"], strict=True)):
            path = Path(f"{files[1]}-{number}") if number else files[1]
            differ = partial(context.differences, case.torch, "differ", files[0], path)
            answer = {"metrics": {}} if _ENDED & {*run["faults"]} else differ()
            failed = judge_failed(
                FAMILY, _FAILED, case, (None, comparison_failure(answer)), "comparable outputs"
            )
            verdicts += [replace(failed, fact=offer)] if failed else []
            verdicts += [] if failed else judge_offer(case, patch, offer, run, answer["metrics"])
        return verdicts


def judge_offer(case: Case, patch: Patch, offer: str, run: Answer, metrics: Answer) -> Verdicts:
    """Return PG531, PG533 and PG534 for faults of the run. If the run has numbers, also return
    PG532, PG534 or PG535 for the numbers.
    """
    say = partial(
        verdict, case=case, fact=offer, expected="as in eager mode", where=offer_place(patch, offer)
    )
    notes = {fault: text for fault, text in run["faults"].items() if fault not in _FAULTS}
    yield from (
        say(*_FAULTS[fault], actual=text)
        for fault, text in run["faults"].items()
        if fault in _FAULTS
    )
    found: list[Verdict] = []
    if metrics:
        outcomes = {
            **metrics["special"],
            **{name: each["mismatch"] for name, each in metrics["small"].items()},
        }
        refused = {name: text for name, text in outcomes.items() if _REFUSES.match(text)}
        left_out = {*refused, _OVERFLOWS}
        judged = {
            part: {name: said for name, said in metrics[part].items() if name not in left_out}
            for part in ("special", "small")
        }
        found = judge_numbers(case, with_own_rounding(patch), {**metrics, **judged})
        notes |= {f"{name} input": text for name, text in refused.items()}
    yield from (
        say("PG534", Kind.WARNING, actual=f"{what}: {text}") for what, text in notes.items()
    )
    wrong = [each for each in found if each.kind is Kind.REGRESSED]
    if wrong:
        first, actual = wrong[0], tuple(f"{each.fact}: {each.actual}" for each in wrong)
        differs = say("PG532", Kind.REGRESSED, actual=actual, share=first.share)
        yield replace(differs, brief=f"{first.fact}: {first.headline}")
    elif found and offer.startswith("pass ") and not run["changed"]:
        yield say("PG534", Kind.WARNING, actual=f"unchanged: none of {run['graphs']} graphs")
    elif found:
        yield say("PG535", Kind.PASS, actual=found[0].actual, where=None)


def offer_place(patch: Patch, offer: str) -> str:
    """The line that defines or registers the offer."""
    name = re.escape(offer.partition(" ")[2])
    found = re.search(rf"(def|class)\s+{name}\b|[\"']{name}[\"']|\b{name}\s*=", patch.source)
    line = patch.source.count("\n", 0, found.start()) + 1 if found else 1
    return f"{display_path(patch.path)}:{line}"
