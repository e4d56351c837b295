"""Forms that ought to agree -> PG507: bit for bit where they did, otherwise in tokens and within the
error that there is anyway.
"""

from __future__ import annotations

import pytest

from patchgate.checks.equivalence import judge_equivalence
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Numerics, Verdict

CASE = Case(torch="2.11.0", device="cpu", workload="chain", patch="mine")
SAME = {"differing": 0.0, "distance": 0.0, "tokens": 1024, "changed_tokens": 0}
ROUNDED = {"differing": 0.33, "distance": 0.003, "tokens": 1024, "changed_tokens": 7}
# Another draw of the same scatter, and one beyond it.
SCATTERED = {"differing": 0.34, "distance": 0.003, "tokens": 1024, "changed_tokens": 9}
FLIPPED = {"differing": 0.34, "distance": 0.003, "tokens": 1024, "changed_tokens": 40}
FAR = {"differing": 0.33, "distance": 0.005, "tokens": 1024, "changed_tokens": 7}
NAN = {"differing": 1.0, "distance": float("nan"), "tokens": 1024, "changed_tokens": 1024}


def judge(
    unpatched: dict[str, float], patched: dict[str, float], numerics: Numerics, factor: float = 1.0
) -> Verdict:
    claims = Claims(title="Mine", numerics=numerics, error_factor=factor)
    patch = Patch(id="mine", path="patch.py", source="", claims=claims, manifest="patch.toml")
    forms = {"batch and single rows": {"unpatched": unpatched, "patched": patched}}
    (verdict,) = judge_equivalence(CASE, patch, {"forms": forms, "error": 0.004})
    return verdict


@pytest.mark.parametrize(
    ("unpatched", "patched", "numerics", "code"),
    [
        (SAME, SAME, Numerics.BIT_IDENTICAL, "PG503"),
        (ROUNDED, ROUNDED, Numerics.BIT_IDENTICAL, "PG503"),
        (ROUNDED, SAME, Numerics.BIT_IDENTICAL, "PG503"),
        (SAME, ROUNDED, Numerics.BIT_IDENTICAL, "PG507"),
        (ROUNDED, SCATTERED, Numerics.BIT_IDENTICAL, "PG503"),
        (ROUNDED, FLIPPED, Numerics.BIT_IDENTICAL, "PG507"),
        (ROUNDED, FLIPPED, Numerics.ROUNDING, "PG503"),
        (ROUNDED, FAR, Numerics.BIT_IDENTICAL, "PG507"),
        (SAME, ROUNDED, Numerics.ROUNDING, "PG503"),
        (SAME, FAR, Numerics.ROUNDING, "PG507"),
        (FAR, FAR, Numerics.ROUNDING, "PG503"),
        (SAME, FAR, Numerics.CHANGES, "PG507"),
        (SAME, NAN, Numerics.ROUNDING, "PG507"),
    ],
)
def test_forms_agree_as_well_as_without_the_patch(unpatched, patched, numerics, code):
    verdict = judge(unpatched, patched, numerics)
    assert (verdict.code, verdict.colour) == (code, Colour.GREEN if code == "PG503" else Colour.RED)


def test_the_error_may_grow_by_the_factor_that_is_claimed():
    assert judge(SAME, FAR, Numerics.ROUNDING, factor=1.3).code == "PG503"


def test_the_difference_of_both_sides_is_shown():
    verdict = judge(SAME, ROUNDED, Numerics.BIT_IDENTICAL)
    assert verdict.actual == (
        "7 of 1024 tokens, which heads with random weights draw, differ between the forms, 0 without the patch; 0.0% -> 33.0% of the elements differ;"
        " the two forms differ by at most 0 -> 0.003"
    )
    assert (verdict.subject, verdict.where) == ("chain.cpu batch and single rows", "patch.toml")
