"""Red results share causes, causes are read in an order, and one verdict is the evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from samples import verdict

from patchgate.checks.framework.find_checks import catalogue
from patchgate.model.policy import Kind
from patchgate.report.causes import CAUSES, cause_of, group_by_cause

RED, CHANGED = Kind.REGRESSED, Kind.CHANGED

# A red result -> the name of its cause.
TABLE = [
    (RED, "PG210", "", "does not run"),
    (RED, "PG301", "compiles", "does not compile"),
    (CHANGED, "PG301", "compiles", "code"),  # it compiles with the patch only
    (RED, "PG301", "loads", "code"),
    (CHANGED, "PG401", "fx.ops", "code"),
    (RED, "PG504", "", "does not compile"),
    (RED, "PG513", "of mean", "does not compile"),
    (RED, "PG513", "form of results of mean", "other form"),
    (RED, "PG706", "", "does not compile"),
    (RED, "PG413", "", "does not compile"),
    (RED, "PG103", "", "does not fit"),
    (RED, "PG221", "", "changes nothing"),
    (Kind.INERT, "PG305", "loads", "changes nothing"),
    (RED, "PG203", "", "version check too narrow"),
    (RED, "PG201", "", "gate"),
    (Kind.ABSORBED, "PG204", "", "needless"),
    (Kind.ABSORBED, "PG304", "loads", "needless"),
    (RED, "PG205", "", "no fix"),
    (RED, "PG501", "bits", "numbers"),
    (RED, "PG507", "", "numbers"),
    (RED, "PG510", "", "numbers"),
    (RED, "PG505", "", "numbers"),
    (RED, "PG512", "of mean", "wrong numbers"),
    (RED, "PG502", "", "wrong numbers"),
    (RED, "PG506", "", "wrong numbers"),
    (RED, "PG516", "", "memory"),
    (RED, "PG532", "", "offered"),
    (RED, "PG208", "", "side effects"),
    (RED, "PG803", "", "unreached"),
    (RED, "PG804", "", "lost for the user"),
    (RED, "PG421", "", "recompiles"),
    (RED, "PG411", "", "recompiles"),
    (RED, "PG701", "", "cache"),
    (Kind.OVER, "PG601", "", "compile cost"),
    (Kind.OVER, "PG602", "", "cheaper compile"),
    (Kind.OVER, "PG611", "", "time"),
    (Kind.OVER, "PG612", "", "gain on the device"),
    (RED, "PG811", "", "other patches"),
    (Kind.DRIFTED, "PG302", "loads", "torch changed"),
    (Kind.DRIFTED, "PG509", "", "torch changed"),
    (Kind.STALE, "PG306", "loads", "torch changed"),
    (Kind.NEW, "PG303", "", "notes"),
    (Kind.FIRST, "PG303", "changes", "notes"),
    (Kind.WARNING, "PG803", "", "notes"),
    (RED, "PG999", "", "PG999"),
]


@pytest.mark.parametrize(("kind", "code", "fact", "name"), TABLE)
def test_the_cause_of_a_red_verdict(kind, code, fact, name):
    assert cause_of(verdict(kind, code, subject=f"stack.h200 {fact}")).name == name


def test_the_table_reaches_every_cause():
    # These two are causes only in view of the others.
    reached = {name for *_, name in TABLE} | {"less effect", "rounding"}
    assert {cause.name for cause in CAUSES} <= reached


def test_every_code_of_a_cause_exists():
    assert {code for cause in CAUSES for code in cause.codes} <= catalogue().keys()


def test_a_code_that_the_table_does_not_name_is_a_cause_of_its_own_with_its_title():
    assert cause_of(verdict(RED, "PG212")).sentence == "The symptom could not be measured."


def test_causes_are_read_in_the_order_of_the_table_and_unknown_ones_come_last():
    told = [verdict(RED, code) for code in ("PG999", "PG701", "PG501", "PG203", "PG510")]
    groups = group_by_cause([*told, verdict(Kind.PASS), verdict(Kind.NEW, "PG303")])
    assert [group.cause.name for group in groups] == [
        "numbers",
        "version check too narrow",
        "cache",
        "PG999",
    ]


@pytest.mark.parametrize(
    ("others", "names"),
    [
        ([], ["changes nothing"]),
        ([verdict(RED, "PG203")], ["changes nothing", "version check too narrow"]),
        ([verdict(RED, "PG501", "parity")], ["numbers", "less effect"]),
        ([verdict(RED, "PG301", subject="stack.h200 loads")], ["code", "less effect"]),
    ],
)
def test_no_patch_does_nothing_that_another_result_shows_to_act(others, names):
    groups = group_by_cause([verdict(Kind.INERT, "PG305", subject="stack.h200 loads"), *others])
    assert [group.cause.name for group in groups] == names
    if others and "less effect" in names:
        assert "nothing" not in groups[-1].cause.sentence


def test_rounding_alone_is_read_after_what_hurts():
    rounded = replace(verdict(RED, "PG501", "parity"), is_rounding=True)
    narrow, tokens = verdict(RED, "PG203"), verdict(RED, "PG510", "parity")
    names = [group.cause.name for group in group_by_cause([rounded, narrow])]
    assert names == ["version check too narrow", "rounding"]
    assert [group.cause.name for group in group_by_cause([rounded, tokens])] == ["numbers"]


def test_the_evidence_is_the_strongest_code_and_of_that_the_largest_share():
    told = [
        verdict(RED, "PG501", "parity", actual="62.4% of 8 elements", share=0.624),
        verdict(RED, "PG510", "parity", actual="0.1% of 4096 tokens", share=0.001),
        verdict(RED, "PG510", "parity", torch="2.12.1", actual="1.6% of 4096 tokens", share=0.016),
        verdict(RED, "PG507", "parity"),
    ]
    (group,) = group_by_cause(told)
    assert group.evidence == told[2]
    assert [one.code for one in group.verdicts] == ["PG510", "PG510", "PG501", "PG507"]


def test_a_failure_at_the_line_of_a_missing_name_has_that_name_as_its_cause():
    missing = verdict(RED, "PG103", "api", subject="attribute A.b", where="mine.py:4")
    crash = verdict(
        RED, "PG301", subject="stack.h200 compiles", where="mine.py:4", actual="AttributeError"
    )
    (group,) = group_by_cause([crash, missing])
    assert (group.cause.name, group.verdicts) == ("does not fit", (missing, crash))
    elsewhere = replace(crash, where="mine.py:9")
    assert [one.cause.name for one in group_by_cause([elsewhere, missing])] == [
        "does not compile",
        "does not fit",
    ]


def test_changed_facts_of_a_case_are_one_line_with_both_values():
    changed = {
        "loads": ("[2 6]", "[2 4]", None),
        "kernels.called": ("13", "12", "14"),
        "bytes.total": ("1000", "900", "1000"),
    }
    (group,) = group_by_cause(
        verdict(
            RED,
            "PG301",
            torch="2.11.0",
            subject=f"stack.h200 {fact}",
            before=old,
            after=new,
            recorded=recorded,
        )
        for fact, (old, new, recorded) in changed.items()
    )
    ((code, line),) = group.changes
    assert code == "PG301"
    assert line == (
        "stack.h200 on torch 2.11.0: kernels.called 13 -> 12 (recorded 14), loads [2 6] -> [2 4],"
        " bytes.total 1,000 -> 900"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"kernels.called": ("7", "6")},
            "better: kernels called 7 -> 6 (-14.3%) (stack.h200 on torch 2.11.0)",
        ),
        (
            {"kernels.called": ("4", "5"), "bytes.total": ("2000", "1900")},
            "better and worse: kernels called 4 -> 5 (+25.0%), bytes moved 2,000 -> 1,900 (-5.0%)"
            " (stack.h200 on torch 2.11.0)",
        ),
        (
            {"memory.peak": ("0", "8")},
            "worse: bytes of memory at the peak 0 -> 8 (stack.h200 on torch 2.11.0)",
        ),
        (
            {"loads": ("[1]", "[2]")},
            "no change in kernels called, bytes moved, bytes of memory at the peak",
        ),
    ],
)
def test_changed_code_is_called_better_or_worse_by_what_it_costs(changes, line):
    (group,) = group_by_cause(
        verdict(
            Kind.CHANGED,
            "PG301",
            torch="2.11.0",
            subject=f"stack.h200 {fact}",
            before=before,
            after=after,
        )
        for fact, (before, after) in changes.items()
    )
    assert group.costs == (line,)
