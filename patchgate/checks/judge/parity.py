"""Figures of a numeric comparison -> PG5xx: bit-stable? accurate? special values as they were?

Decides by the patch's claim. Refuses to know how the figures were taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Failure, Kind, Numerics, Patch, Verdict

# Errors are 2-norms of thousands of elements; below this they are equal but for the last digits.
_SLACK = 1e-6
# The worst of some thousand elements scatters; a defect in one of them is far larger.
_ELEMENT = 2
_SIDES = ("eager", "unpatched", "patched")
# How Inductor says that it found no compiler, or one that does not work.
_NO_COMPILER = ("InvalidCxxCompiler", "No working C++ compiler", "CppCompileError", "['g++'", "['clang++'")


_verdict = partial(verdict_of, "parity")


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
    """Three questions: bit-stable? accurate against float64? and do special inputs come out as they did?

    The first two are asked of the outputs, and of the gradients where there are any.
    """
    where = shown(patch.manifest or patch.path)
    strict = patch.claims.numerics is not Numerics.CHANGES
    verdicts = []
    for part, told in ((subject, figures), (f"{subject} gradients", figures.get("gradients"))):
        if told:
            verdicts.append(_bits(torch, patch, part, told, where))
            verdicts += [_error(torch, patch, part, told, where)] if strict else []
    return [*verdicts, *_extremes(torch, patch, subject, figures, where)] if strict else verdicts


def _bits(torch: str, patch: Patch, subject: str, figures: Mapping[str, Any], where: str) -> Verdict:
    """The share that differs, held to the class that is claimed."""
    claims, subject = patch.claims, f"{subject} bits"
    restless = [side for side, repeats in figures["repeats"].items() if not repeats]
    if restless:
        actual = f"{' and '.join(restless)}: the second of two equal runs gave other bits"
        return _verdict("PG511", Kind.UNMEASURED, torch, subject, "two equal runs", actual, where)
    expected = f'numerics = "{claims.numerics.value}"'
    actual = f"{figures['differing']:.1%} of {figures['elements']:.0f} elements differ bit for bit"
    actual += f", largest difference {figures['largest']:.6g} ({figures['ulps']:.3g} ulps)"
    if figures.get("parted"):
        actual += f"; they part at {figures['parted']}"
    code = _broken_claim(patch, figures)
    if code == "PG505":
        expected += f", at most {claims.largest_ulps:g} ulps"
    kind = Kind.REGRESSED if code else Kind.PASS
    return _verdict(code or "PG503", kind, torch, subject, expected, actual, where if code else None)


def _broken_claim(patch: Patch, figures: Mapping[str, Any]) -> str | None:
    """The code of what bits and ulps break of the claim."""
    claims = patch.claims
    if claims.numerics is Numerics.BIT_IDENTICAL and figures["differing"] > 0:
        return "PG501"
    return "PG505" if claims.numerics is Numerics.ROUNDING and not figures["ulps"] <= claims.largest_ulps else None


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


def _extremes(torch: str, patch: Patch, subject: str, figures: Mapping[str, Any], where: str) -> Iterator[Verdict]:
    """NaN, infinities and extremes in the inputs, one row and none: what comes out is what unpatched or eager gives."""
    expected = "NaN, infinite and finite elements, or the error, that unpatched or eager gives"
    lost = {name: what for name, what in figures["special"].items() if what}
    yield _behaviour(torch, f"{subject} special inputs", expected, figures["special"], lost, where)
    small = figures["small"]
    if small:
        lost = {name: told["lost"] or _apart(patch, told) for name, told in small.items()}
        lost = {name: what for name, what in lost.items() if what}
        yield _behaviour(torch, f"{subject} small inputs", f"{expected}; numbers as claimed", small, lost, where)


def _apart(patch: Patch, told: Mapping[str, Any]) -> str:
    return f"{told['differing']:.1%} differ, {told['ulps']:.3g} ulps" if _broken_claim(patch, told) else ""


def _behaviour(
    torch: str, subject: str, expected: str, asked: Iterable[str], lost: Mapping[str, str], where: str
) -> Verdict:
    if lost:
        actual = ", ".join(f"{name} input: {what}" for name, what in lost.items())
        return _verdict("PG506", Kind.REGRESSED, torch, subject, expected, actual, where)
    return _verdict("PG503", Kind.PASS, torch, subject, expected, f"as there, for inputs with {', '.join(asked)}", None)
