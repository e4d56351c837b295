"""Do two ranks agree as closely with the patch as without it? Tensor- and sequence-parallel, on CPU
and on two GPUs.
"""

from __future__ import annotations

from patchgate.checks.equivalence import judge_equivalence
from patchgate.checks.framework import (
    Answer,
    Check,
    CheckContext,
    Instance,
    NothingToJudge,
    Patch,
    Verdict,
    Verdicts,
    failure_of,
)
from patchgate.checks.machine import judge_undeviced
from patchgate.checks.parity import compared_sides, numeric_devices

FAMILY = "parity"
# The number of compiles: each mode is compiled once in each rank.
_COMPILES = 2


class NoRanks(NothingToJudge):
    """Two ranks cannot run here; the message says why."""


@Check(
    axes=("torch", "device"),
    workload="two_ranks",
    devices=numeric_devices,
    seconds=3,
    unchanged="none",
)
def ask_ranks(context: CheckContext, at: Instance) -> Verdicts:
    case = at.case

    def ask(patch: Patch | None, path: str) -> Answer:
        answer = context.ask_building(
            case.torch, "ranks", case.device, patch=patch, compiles=_COMPILES, outputs=path
        )
        if "unmeasured" in answer:
            raise NoRanks(answer["unmeasured"])
        failure = failure_of(answer)
        if failure and failure.signature.endswith("SIGABRT"):
            # The ranks are forks, and a patch that computes at import has started threads before
            # the fork. Real ranks are not forks.
            raise NoRanks(f"{failure.text}: the two ranks are forked after the import of the patch")
        return answer

    try:
        metrics = compared_sides(context, case, ask, "differ forms")
    except NoRanks as reason:
        return [judge_undeviced(FAMILY, case, str(reason), "two GPUs")]
    return (
        [metrics]
        if isinstance(metrics, Verdict)
        else judge_equivalence(case, context.patch, metrics)
    )
