"""Judge the backends and passes that a patch offers -> PG531 to PG535."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.offers import judge_offer
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Numerics, Verdict

CASE = Case(torch="2.11.0", device="cpu", workload="mlp", patch="mine")
SOURCE = "import torch\n\n\ndef fold(gm):\n    return gm\n"
NUMBERS: dict[str, Any] = {
    **{
        "differing": 0.5,
        "elements": 10.0,
        "largest": 0.01,
        "ulps": 40.0,
        "special": {"nan": ""},
        "small": {},
    },
    "repeats": {"unpatched": True, "patched": True},
    **{
        f"{kind}_{side}": 0.001
        for kind in ("error", "worst")
        for side in ("eager", "unpatched", "patched")
    },
}


def judge(
    offer: str = "pass fold",
    faults: dict[str, str] | None = None,
    changed: int = 1,
    numerics: Numerics = Numerics.BIT_IDENTICAL,
    **numbers: Any,
) -> list[Verdict]:
    patch = Patch(
        id="mine", path="patch.py", source=SOURCE, claims=Claims(title="Mine", numerics=numerics)
    )
    run = {"graphs": 2, "changed": changed, "faults": faults or {}}
    return list(
        judge_offer(CASE, patch, offer, run, NUMBERS | numbers if numbers != {"none": True} else {})
    )


def codes(verdicts: list[Verdict]) -> list[str]:
    return [each.code for each in verdicts]


def test_other_bits_with_the_error_of_eager_mode_are_sound():
    (verdict,) = judge()
    assert verdict.code == "PG535"
    assert verdict.colour is Colour.GREEN


@pytest.mark.parametrize(
    "numbers",
    [
        {"error_patched": 0.01},
        {"worst_patched": 100.0},
        {"special": {"nan": "3 other"}},
        {"special": {"nan": "raises KeyError"}},
        {
            "small": {
                "twice the rows": {
                    "mismatch": "outputs of another shape or dtype",
                    "differing": 0.0,
                    "ulps": 0.0,
                }
            }
        },
        {"repeats": {"unpatched": True, "patched": False}},
    ],
)
def test_wrong_results_are_red_at_the_line_that_defines_what_is_offered(numbers):
    (verdict,) = judge(**numbers)
    assert (verdict.code, verdict.colour, verdict.where) == ("PG532", Colour.RED, "patch.py:4")


def test_a_manifest_that_claims_other_numbers_allows_another_error():
    assert codes(judge(error_patched=0.01, numerics=Numerics.CHANGES)) == ["PG535"]


def test_inputs_that_are_refused_aloud_are_a_note_beside_the_numbers():
    small = {"no rows": {"mismatch": "raises ValueError", "differing": 0.0, "ulps": 0.0}}
    assert codes(judge("backend b", small=small)) == ["PG534", "PG535"]


def test_a_pass_that_changes_no_graph_is_not_green_and_a_backend_has_no_graphs_to_change():
    assert codes(judge(changed=0)) == ["PG534"]
    assert codes(judge("backend b", changed=0)) == ["PG535"]


@pytest.mark.parametrize(
    ("fault", "code", "colour"),
    [
        ("raises", "PG531", Colour.RED),
        ("metadata", "PG533", Colour.RED),
        ("refuses", "PG534", Colour.GREY),
        ("unmeasured", "PG534", Colour.GREY),
        ("again", "PG534", Colour.GREY),
    ],
)
def test_what_hurts_users_is_red_and_what_may_surprise_them_is_a_note(fault, code, colour):
    (verdict,) = judge(faults={fault: "KeyError: 'val'"}, none=True)
    assert (verdict.code, verdict.colour) == (code, colour)
    assert "KeyError: 'val'" in verdict.actual
