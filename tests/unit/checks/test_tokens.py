"""Sampled tokens, unpatched against patched: the words, the interval and PG510."""

from __future__ import annotations

import pytest

from patchgate.checks.tokens import flips_within, judge_tokens
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Numerics, Verdict

CASE = Case(torch="2.11.0", device="cpu", workload="decoder", patch="mine")
NONE = {
    "sequences": 64,
    "tokens": 4096,
    "changed_sequences": 0,
    "changed_tokens": 0,
    "drawn_alike": 4096,
}
SOME = {
    "sequences": 64,
    "tokens": 4096,
    "changed_sequences": 3,
    "changed_tokens": 65,
    "drawn_alike": 4000,
    "first_sequence": 17,
    "first_token": 12,
    "first_before": 92,
    "first_after": 40,
}
ALL = {
    "sequences": 64,
    "tokens": 4096,
    "changed_sequences": 64,
    "changed_tokens": 4096,
    "drawn_alike": 64,
    "first_sequence": 0,
    "first_token": 0,
    "first_before": 1,
    "first_after": 2,
}


def judge(counts: dict[str, int], numerics: Numerics = Numerics.BIT_IDENTICAL) -> Verdict:
    patch = Patch(
        id="mine", path="patch.py", source="", claims=Claims(title="Mine", numerics=numerics)
    )
    (verdict,) = judge_tokens(CASE, patch, {"greedy": counts})
    return verdict


@pytest.mark.parametrize(
    ("counts", "numerics", "code", "kind"),
    [
        (NONE, Numerics.BIT_IDENTICAL, "PG503", Kind.PASS),
        (SOME, Numerics.BIT_IDENTICAL, "PG510", Kind.REGRESSED),
        (SOME, Numerics.ROUNDING, "PG503", Kind.NOTE),
        (ALL, Numerics.CHANGES, "PG503", Kind.NOTE),
    ],
)
def test_a_flip_is_red_unless_it_is_claimed(counts, numerics, code, kind):
    verdict = judge(counts, numerics)
    assert (verdict.code, verdict.kind, verdict.subject) == (
        code,
        kind,
        "decoder.cpu greedy tokens",
    )


def test_the_sentence_that_a_maintainer_needs():
    assert judge(SOME).actual == (
        "1.6% of 4096 tokens change, in 3 of 64 texts (of all texts 1.6% to 12.9%, with 95% "
        "confidence);"
        " probability that an exact-text test fails: 4.7% (1.6% to 13.2%) over 64 tokens,"
        " 52.8% (22.5% to 89.0%) over 1000 tokens; first: sequence 17, token 12: 92 -> 40"
    )


@pytest.mark.parametrize("tokens", [1, 64, 1000])
def test_none_and_all_are_sure_on_one_side_only(tokens):
    assert flips_within(tokens, NONE)[:2] == (0.0, 0.0)
    assert flips_within(tokens, NONE)[2] > 0
    assert flips_within(tokens, ALL)[0] == 1.0


def test_the_place_where_both_sides_part_is_named():
    assert judge(SOME).actual.endswith("; first: sequence 17, token 12: 92 -> 40")
    assert "first:" not in judge(NONE).actual
