"""Figures of a numeric comparison -> PG5xx: bit-stable? accurate?

Decides by the patch's claim. Refuses to know how the figures were taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgate.codes import CODES
from patchgate.model import Cause, Failure, Kind, Numerics, Patch, Verdict, Workload
from patchgate.project import shown

# Errors are 2-norms of thousands of elements; below this they are equal but for the last digits.
_SLACK = 1e-6


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


def judge_failure(torch: str, workload: Workload, unpatched: Failure | None, patched: Failure | None) -> Verdict:
    """One side did not run: the patch's fault only when the other did."""
    subject = f"{workload.name}.cpu"
    if unpatched:
        no_compiler = "InvalidCxxCompiler" in unpatched.signature or "No working C++ compiler" in unpatched.signature
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


def judge_numbers(torch: str, patch: Patch, workload: Workload, figures: Mapping[str, float]) -> list[Verdict]:
    """Bit-stability by the claim, and accuracy against float64 unless the patch claims to change numbers."""
    subject, claim = f"{workload.name}.cpu", patch.claims.numerics
    where = shown(patch.manifest or patch.path)
    changed = f"{figures['differing']:.1%} of {figures['elements']:.0f} elements differ bit for bit"
    changed += f", largest difference {figures['largest']:.6g}"
    errors = {side: figures[f"error_{side}"] for side in ("eager", "unpatched", "patched")}
    told = ", ".join(f"{side} {error:.3g}" for side, error in errors.items())
    verdicts = []
    if not figures["deterministic"]:
        verdicts.append(
            _verdict(
                "PG508",
                Kind.UNMEASURED,
                torch,
                f"{subject} bits",
                "two equal runs",
                "the same side differs",
                where,
            )
        )
    elif claim is Numerics.BIT_IDENTICAL and figures["differing"] > 0:
        verdicts.append(
            _verdict(
                "PG501",
                Kind.REGRESSED,
                torch,
                f"{subject} bits",
                f'numerics = "{claim.value}"',
                changed,
                where,
            )
        )
    else:
        verdicts.append(
            _verdict("PG503", Kind.PASS, torch, f"{subject} bits", f'numerics = "{claim.value}"', changed, None)
        )
    if claim is not Numerics.CHANGES:
        bound = patch.claims.error_factor * max(errors["eager"], errors["unpatched"])
        worse = not errors["patched"] <= bound * (1 + _SLACK)
        verdicts.append(
            _verdict(
                "PG502" if worse else "PG503",
                Kind.REGRESSED if worse else Kind.PASS,
                torch,
                f"{subject} error",
                f"relative error against float64 of at most {bound:.3g}",
                told,
                where if worse else None,
            )
        )
    return verdicts
