"""Do equivalent forms of a workload agree as closely with the patch as without it? On the CPU, on a
real GPU, and by Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Numerics,
    Patch,
    Verdict,
    Verdicts,
    read_codes,
    verdict_of,
)
from patchgate.checks.generated_kernels import (
    interpreted_sides,
    is_same_code,
    modules_of,
    simulated_devices,
)
from patchgate.checks.parity import (
    acted_on,
    compared_sides,
    error_factor,
    numeric_devices,
    outputs_of,
)
from patchgate.model.statistics import share_interval

FAMILY = "parity"
CODES = read_codes("""
PG507 mathematically equal configurations agree less than without the patch
    Static and dynamic shapes, a batch and its single rows, the whole graph and its pieces, opaque
    and eager attention, or two ranks that split a model by its columns or its rows agree in every
    bit without the patch, and no longer with it; or they differ by more than rounding, or change
    more of the tokens that heads with random weights draw from them. A patch that claims
    `numerics = "rounding"` may change bits and tokens.
    Why: Users mix these: the same prompt then gives another answer, depending on what it is batched
    with.
    Fix: Base the decisions of the patch on what is the same in all of these configurations, not on
    size hints or graph boundaries.
""")
verdict = partial(verdict_of, FAMILY)
#: The difference between two forms on one side, as `differ_variants` of the probe gives it.
Figures = Mapping[str, float]
# The number of compiles: both forms of each pair are compiled, whole and in pieces.
_COMPILES = 4


@Check(
    axes=("torch", "device", "workload"),
    workloads="equivalence",
    devices=lambda run: [*numeric_devices(run), *simulated_devices(run)],
    seconds=3,
    unchanged="none",
)
def ask_consistency(context: CheckContext, at: Instance) -> Verdicts:
    case = at.case

    ask = partial(outputs_of, context, case, "forms", compiles=_COMPILES)
    if context.run.profile(case.device)["kind"] == "simulated":
        if is_same_code(*modules_of(context, case)):
            raise NothingToJudge("the same code is generated")
        metrics = interpreted_sides(context, case, ask, "differ forms")
    else:
        metrics = compared_sides(context, case, ask, "differ forms")
    if isinstance(metrics, Verdict):
        return [metrics]
    return acted_on(context, case, judge_equivalence(case, context.patch, metrics))


def judge_equivalence(case: Case, patch: Patch, metrics: Answer) -> list[Verdict]:
    """One verdict for each pair of forms. A patch that claims to change numbers must still change
    both forms alike.
    """
    return [
        _pair(case, patch, name, sides["unpatched"], sides["patched"], metrics["error"])
        for name, sides in metrics["forms"].items()
    ]


def _pair(
    case: Case, patch: Patch, name: str, before: Figures, after: Figures, error: float
) -> Verdict:
    """The verdict on one pair of forms. They are compared bit for bit if the patch claims no change
    and the forms agree without it, otherwise within the error of eager and unpatched code.
    """
    bound = max(before["distance"], error_factor(patch) * error)
    agrees = after["distance"] <= bound
    expected = (
        f"the two forms differ by at most {bound:.3g}, as without the patch, or as eager or "
        "unpatched code differs from float64"
    )
    if patch.claims.numerics is Numerics.BIT_IDENTICAL:
        if before["differing"]:
            agrees = agrees and not _draws_more(before, after)
            expected += "; no more tokens change than without the patch"
        else:
            agrees, expected = not after["differing"], "equal in every bit, as without the patch"
    actual = (
        *_change_of_tokens(before, after),
        f"{before['differing']:.1%} -> {after['differing']:.1%} of the elements differ",
        f"the two forms differ by at most {before['distance']:.3g} -> {after['distance']:.3g}",
    )
    say = partial(verdict, case=case, fact=name, expected=expected, actual=actual)
    if agrees:
        return say("PG503", Kind.PASS)
    where = patch.place_of("numerics")
    growth = after["differing"] - before["differing"]
    return say("PG507", Kind.REGRESSED, where=where, share=growth)


def _draws_more(before: Figures, after: Figures) -> bool:
    """True if the share of changed tokens grows by more than chance explains: the two intervals do
    not overlap.
    """
    if not (before["tokens"] and after["tokens"]):
        return False
    known, now = (
        share_interval(int(side["changed_tokens"]), int(side["tokens"])) for side in (before, after)
    )
    return now[0] > known[1]


def _change_of_tokens(before: Figures, after: Figures) -> tuple[str, ...]:
    """A clause on the tokens that differ between the forms, with and without the patch; empty if
    none differ with the patch.
    """
    if not after["changed_tokens"]:
        return ()
    return (
        f"{after['changed_tokens']} of {after['tokens']} tokens, which heads with random weights "
        f"draw, differ between the forms, {before['changed_tokens']} without the patch",
    )
