"""Figures of a numeric comparison -> PG5xx: bit-stable? accurate? special values as they were?

Decides by the patch's claim. Refuses to know how the figures were taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchgate.codes import CODES
from patchgate.model import Cause, Failure, Kind, Numerics, Patch, Verdict
from patchgate.project import shown

# Errors are 2-norms of thousands of elements; below this they are equal but for the last digits.
_SLACK = 1e-6
# The worst of some thousand elements scatters; a defect in one of them is far larger.
_ELEMENT = 2
_SIDES = ("eager", "unpatched", "patched")
# How Inductor says that it found no compiler, or one that does not work.
_NO_COMPILER = ("InvalidCxxCompiler", "No working C++ compiler", "CppCompileError", "['g++'", "['clang++'")


def _verdict(code: str, kind: Kind, torch: str, subject: str, expected: str, actual: str, where: str | None) -> Verdict:
    told = CODES[code]
    return Verdict(
        code=code,
        kind=kind,
        check="parity",
        torch=torch,
        subject=subject,
        expected=expected,
        actual=actual,
        where=where,
        why=told.why,
        next=told.fix,
    )


def judge_failed(torch: str, subject: str, unpatched: Failure | None, patched: Failure | None) -> Verdict:
    """One side did not run: the patch's fault only when the other did."""
    if unpatched:
        no_compiler = any(word in unpatched.signature for word in _NO_COMPILER)
        code, kind = ("PG508", Kind.UNMEASURED) if no_compiler else ("PG509", Kind.INFRA)
        return _verdict(code, kind, torch, subject, "runs", f"unpatched: {unpatched.signature}", unpatched.where)
    assert patched is not None
    infra = patched.cause is Cause.MACHINE
    return _verdict(
        "PG509" if infra else "PG504",
        Kind.INFRA if infra else Kind.REGRESSED,
        torch,
        subject,
        "runs as it does unpatched",
        f"patched: {patched.cause.value}: {patched.signature}",
        patched.where,
    )


def judge_numbers(torch: str, patch: Patch, subject: str, figures: Mapping[str, Any]) -> list[Verdict]:
    """Three questions: bit-stable? accurate against float64? and do special values come out as such?"""
    where = shown(patch.manifest or patch.path)
    verdicts = [_bits(torch, patch, subject, figures, where)]
    if patch.claims.numerics is not Numerics.CHANGES:
        verdicts += [_error(torch, patch, subject, figures, where), _special(torch, subject, figures, where)]
    return verdicts


def _bits(torch: str, patch: Patch, subject: str, figures: Mapping[str, Any], where: str) -> Verdict:
    """The share that differs, held to the class that is claimed."""
    claims, subject = patch.claims, f"{subject} bits"
    if not figures["deterministic"]:
        return _verdict(
            "PG508", Kind.UNMEASURED, torch, subject, "two equal runs", "the same side differs from run to run", where
        )
    expected = f'numerics = "{claims.numerics.value}"'
    actual = f"{figures['differing']:.1%} of {figures['elements']:.0f} elements differ bit for bit"
    actual += f", largest difference {figures['largest']:.6g} ({figures['ulps']:.3g} ulps)"
    if figures.get("parted"):
        actual += f"; they part at {figures['parted']}"
    if claims.numerics is Numerics.BIT_IDENTICAL and figures["differing"] > 0:
        return _verdict("PG501", Kind.REGRESSED, torch, subject, expected, actual, where)
    if claims.numerics is Numerics.ROUNDING and not figures["ulps"] <= claims.largest_ulps:
        expected += f", at most {claims.largest_ulps:g} ulps"
        return _verdict("PG505", Kind.REGRESSED, torch, subject, expected, actual, where)
    return _verdict("PG503", Kind.PASS, torch, subject, expected, actual, None)


def _error(torch: str, patch: Patch, subject: str, figures: Mapping[str, Any], where: str) -> Verdict:
    """The error against float64, of all elements and of the worst one."""
    factor = patch.claims.error_factor
    errors, worst = ({side: figures[f"{kind}_{side}"] for side in _SIDES} for kind in ("error", "worst"))
    bound = factor * max(errors["eager"], errors["unpatched"])
    limit = factor * _ELEMENT * max(worst["eager"], worst["unpatched"]) + 1
    worse = not (errors["patched"] <= bound * (1 + _SLACK) and worst["patched"] <= limit)
    told = ", ".join(f"{side} {error:.3g}" for side, error in errors.items())
    told += "; worst element, in ulps: " + ", ".join(f"{side} {error:.3g}" for side, error in worst.items())
    expected = f"relative error against float64 of at most {bound:.3g}, of one element {limit:.3g} ulps"
    code, kind = ("PG502", Kind.REGRESSED) if worse else ("PG503", Kind.PASS)
    return _verdict(code, kind, torch, f"{subject} error", expected, told, where if worse else None)


def _special(torch: str, subject: str, figures: Mapping[str, Any], where: str) -> Verdict:
    """NaN, infinities and extremes in the inputs: what comes out is of a kind that unpatched or eager gives."""
    lost = {name: count for name, count in figures["special"].items() if count}
    expected = "NaN, infinite and finite elements where unpatched or eager has them"
    if lost:
        actual = ", ".join(f"{name} input: {_elements(count)}" for name, count in lost.items())
        return _verdict("PG506", Kind.REGRESSED, torch, f"{subject} special inputs", expected, actual, where)
    actual = f"as there, for inputs with {', '.join(figures['special'])}"
    return _verdict("PG503", Kind.PASS, torch, f"{subject} special inputs", expected, actual, None)


def _elements(count: int) -> str:
    return f"{count} other" if count > 0 else "outputs of another shape or dtype"
