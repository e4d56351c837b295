"""Mathematically equal forms of a workload -> PG507: do they agree with the patch as well as without?

Decides by the patch's claim: bit for bit, or within the error that eager and
unpatched have anyway. Refuses to know how a form was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Kind, Numerics, Patch, Verdict


def judge_forms(torch: str, patch: Patch, subject: str, figures: Mapping[str, Any]) -> list[Verdict]:
    """One verdict a form; a patch that claims to change numbers still has to change them alike."""
    return [_form(torch, patch, f"{subject} {name}", told, figures["error"]) for name, told in figures["forms"].items()]


def _form(torch: str, patch: Patch, subject: str, told: Mapping[str, Mapping[str, float]], error: float) -> Verdict:
    before, after = told["unpatched"], told["patched"]
    if patch.claims.numerics is Numerics.BIT_IDENTICAL:
        agrees = after["differing"] <= before["differing"]
        expected = f"at most {before['differing']:.1%} of the elements differ between the two, as unpatched"
    else:
        bound = max(before["distance"], patch.claims.error_factor * error)
        agrees = after["distance"] <= bound
        expected = f"the two are at most {bound:.3g} apart: as far as unpatched, or as eager or unpatched from float64"
    actual = ", ".join(
        f"{side} {figures['differing']:.1%} of the elements differ, {figures['distance']:.3g} apart"
        for side, figures in told.items()
    )
    if agrees:
        return verdict_of("parity", "PG503", Kind.PASS, torch, subject, expected, actual)
    where = shown(patch.manifest or patch.path)
    return verdict_of("parity", "PG507", Kind.REGRESSED, torch, subject, expected, actual, where)
