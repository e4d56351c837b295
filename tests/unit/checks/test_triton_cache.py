"""Machine code that processes sharing Triton's cache were given -> PG707 or PG708."""

from __future__ import annotations

import pytest

from patchgate.checks.cache import PATCHED, PATCHED_WARM, UNPATCHED, UNPATCHED_WARM
from patchgate.checks.triton_cache import differing_kernels, judge_triton_cache
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Verdict
from patchgate.model.serialization import Answer

CASE = Case(torch="2.11.0", device="h200", workload="chain", patch="mine")
PATCH = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
OURS, THEIRS = {"same": "a", "parted": "b"}, {"same": "a", "parted": "c", "theirs": "d"}


def ran(kernels: dict[str, str]) -> Answer:
    return {"kernels": kernels}


# Each side ran its own.
KNOWN = {
    UNPATCHED: ran(OURS),
    PATCHED: ran(THEIRS),
    PATCHED_WARM: ran(THEIRS),
    UNPATCHED_WARM: ran(OURS),
}
STALE_PATCHED = {PATCHED_WARM: ran(THEIRS | {"parted": "b"})}
STALE_UNPATCHED = {UNPATCHED_WARM: ran(OURS | {"parted": "c"})}


def judge(**changed: Answer) -> list[Verdict]:
    return judge_triton_cache(CASE, PATCH, KNOWN | changed)


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, ["PG708"]),
        (STALE_PATCHED, ["PG707"]),
        (STALE_UNPATCHED, ["PG707"]),
        (STALE_PATCHED | STALE_UNPATCHED, ["PG707", "PG707"]),
    ],
)
def test_a_side_that_was_given_the_others_kernel_is_red(changed, codes):
    assert [verdict.code for verdict in judge(**changed)] == codes


def test_the_side_and_the_number_of_kernels_are_reported():
    (verdict,) = judge(**STALE_PATCHED)
    assert verdict.colour is Colour.RED
    assert verdict.subject == "chain.h200 patched after unpatched"
    assert verdict.actual == "1 of 1 kernels that the patch changes ran as unpatched"
    assert "TRITON_CACHE_DIR" in verdict.advice


def test_kernels_of_another_source_cannot_be_mixed_up():
    sides = {UNPATCHED: ran({"one": "a"}), PATCHED: ran({"other": "b"})}
    assert differing_kernels(sides) == []
    (verdict,) = judge_triton_cache(CASE, PATCH, sides)
    assert (verdict.code, verdict.colour) == ("PG708", Colour.GREEN)
    assert "of 1 kernels 0 have the same source" in verdict.actual


def test_only_a_kernel_of_the_same_source_and_other_machine_code_parts_the_sides():
    assert differing_kernels(KNOWN) == ["parted"]
    assert differing_kernels(KNOWN | {PATCHED: ran(OURS)}) == []
