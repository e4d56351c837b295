"""Do equivalent forms of a workload agree as closely with the patch as without it? On the CPU, and
on a real GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    Numerics,
    Patch,
    Verdict,
    Verdicts,
    read_codes,
    verdict_of,
)
from patchgate.checks.parity import (
    acted_on,
    compared_sides,
    error_factor,
    numeric_devices,
    outputs_of,
)

FAMILY = "parity"
CODES = read_codes("""
PG507 mathematically equal configurations agree less than without the patch
    Static and dynamic shapes, a batch and its single rows, the whole graph and its pieces, opaque
    and eager attention, or two ranks that split a model by its columns or its rows differ from each
    other more with the patch than without it.
    Why: Users mix these: the same prompt then gives another answer, depending on what it is batched
    with.
    Fix: Base the decisions of the patch on what is the same in all of these configurations, not on
    size hints or graph boundaries.
""")
verdict = partial(verdict_of, FAMILY)
# Both forms of each pair are compiled, whole and in pieces.
_COMPILES = 4


@Check(
    axes=("torch", "device", "workload"),
    workloads="equivalence",
    devices=numeric_devices,
    seconds=4,
    unchanged="none",
)
def ask_consistency(context: CheckContext, at: Instance) -> Verdicts:
    def ask(patch: Patch | None, path: Path) -> Answer:
        return outputs_of(context, at.case, "forms", patch, path, compiles=_COMPILES)

    with TemporaryDirectory() as folder:
        metrics = compared_sides(context, at.case, ask, "differ forms", Path(folder))
    if isinstance(metrics, Verdict):
        return [metrics]
    return acted_on(context, at.case, judge_equivalence(at.case, context.patch, metrics))


def judge_equivalence(case: Case, patch: Patch, metrics: Answer) -> list[Verdict]:
    """One verdict for each pair of forms. A patch that claims to change numbers still has to change
    both alike.
    """
    return [
        _pair(case, patch, name, sides, metrics["error"])
        for name, sides in metrics["forms"].items()
    ]


def _pair(
    case: Case, patch: Patch, name: str, sides: Mapping[str, Mapping[str, float]], error: float
) -> Verdict:
    """Compare bit for bit, or within the error of eager and unpatched code, as the patch claims."""
    before, after = sides["unpatched"], sides["patched"]
    if patch.claims.numerics is Numerics.BIT_IDENTICAL:
        agrees = after["differing"] <= before["differing"]
        expected = f"at most {before['differing']:.1%} differ, as without the patch"
    else:
        bound = max(before["distance"], error_factor(patch) * error)
        agrees = after["distance"] <= bound
        expected = (
            f"the two forms differ by at most {bound:.3g}, as without the patch, or as eager or "
            "unpatched code differs from float64"
        )
    actual = (
        f"{before['differing']:.1%} -> {after['differing']:.1%} of the elements differ",
        f"the two forms differ by at most {before['distance']:.3g} -> {after['distance']:.3g}",
    )
    say = partial(verdict, case=case, fact=name, expected=expected, actual=actual)
    if agrees:
        return say("PG503", Kind.PASS)
    where = patch.place_of("numerics")
    growth = after["differing"] - before["differing"]
    return say("PG507", Kind.REGRESSED, where=where, share=growth)
