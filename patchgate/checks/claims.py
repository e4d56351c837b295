"""Does the manifest allow so much that hardly any patch would be red?"""

from __future__ import annotations

from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Check,
    CheckContext,
    Instance,
    Kind,
    Verdicts,
    read_codes,
    verdict_of,
)
from patchgate.inputs.manifest import Claims
from patchgate.model.budgets import METRICS

FAMILY = "gate"
# The usual maxima. An error ten times as large loses a digit. 8 units in the last place of bfloat16
# are 8 * 2**16 of float32. A cost may at most double.
_FACTOR, _ULPS, _GROWTH = 10.0, 8 * 2.0**16, 1.0
# Kinds of effects that a manifest claims with a name, such as `environment NAME`.
_NAMED = ("config", "environment", "process", "python", "state")
CODES = read_codes(f"""
PG232 the claim allows almost anything
    The manifest states a limit beyond which hardly any patch goes: `error_factor` above
    {_FACTOR:g}, `largest_ulps` above {_ULPS:g}, or a budget of more than {_GROWTH:.0%}. Or
    `effects` has a kind without a name, such as "config", which is every effect of that kind.
    Why: Green then tells a reviewer little: a wrong number, a cost that doubles, or any setting
    that changes, is within the claim.
    Fix: State what was measured, with some room: the results of numbers and costs give the
    figures, and those of effects the names.
""")
verdict = partial(verdict_of, FAMILY)


def wide_limits(claims: Claims) -> dict[str, tuple[float, float]]:
    """Map each key of the manifest whose limit exceeds the usual maximum to (the stated limit, the
    usual maximum).
    """
    limits = {
        "error_factor": (claims.error_factor, _FACTOR),
        "largest_ulps": (claims.largest_ulps, _ULPS),
    }
    limits |= {
        name: (claims.budgets[name].high, _GROWTH) for name in METRICS if name in claims.budgets
    }
    return {
        name: (stated, most)
        for name, (stated, most) in limits.items()
        if stated is not None and stated > most
    }


def every_effect(claims: Claims) -> list[str]:
    """The kinds of effects that are claimed without a name, though their effects have names."""
    return [kind for kind in claims.effects if kind in _NAMED]


@Check(
    believes=SIMULATED,
    wanted=lambda run, patch: bool(wide_limits(patch.claims) or every_effect(patch.claims)),
)
def ask_claims(context: CheckContext, at: Instance) -> Verdicts:
    for name, (stated, most) in wide_limits(context.patch.claims).items():
        where = context.patch.place_of(name)
        usual = f"at most {most:g}" if name not in METRICS else f"at most {most:.0%}"
        actual = f"{stated:g}" if name not in METRICS else f"{stated:.0%}"
        share = stated if name in METRICS else 0.0
        yield verdict(
            "PG232", Kind.WARNING, at.case, "", usual, actual, where, item=name, share=share
        )
    for kind in every_effect(context.patch.claims):
        usual, where = f"{kind} NAME", context.patch.place_of("effects")
        yield verdict("PG232", Kind.WARNING, at.case, "", usual, f"every {kind}", where, item=kind)
