"""The words themselves: exit codes from colours, ids from cases, and a missing fact that equals
nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchgate.model.exit_code import exit_code
from patchgate.model.policy import POLICY, Colour, Kind
from patchgate.model.records import Case, Cause, Command, Failure, Unmeasured, Verdict

GREEN, RED, GREY = Kind.PASS, Kind.REGRESSED, Kind.INFRA


def verdicts(*kinds: Kind) -> list[Verdict]:
    case = Case(torch="2.11.0", workload="stack")
    return [
        Verdict(code="PG000", kind=kind, check="kernels", case=case, item="stack") for kind in kinds
    ]


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ([GREEN], 0),
        ([GREEN, GREEN], 0),
        ([RED], 1),
        ([GREEN, RED, GREY], 1),
        ([], 3),
        ([GREY], 4),
        ([Kind.NEW], 0),
        ([GREEN, Kind.ASSUMED], 0),
        ([Kind.NEW, GREY], 4),
        ([Kind.FIRST, Kind.UNDER, Kind.WARNING], 0),
        ([GREEN, GREY], 4),
        ([Kind.REGRESSED, Kind.STOPPED], 4),  # a part of a run is no result
        ([GREEN, Kind.STOPPED], 4),
    ],
)
def test_red_is_stronger_than_grey_and_grey_than_green(kinds, code):
    assert exit_code(verdicts(*kinds)) == code


# The whole policy, written down again: kinds that block a merge, kinds that are notes, kinds that
# judge nothing.
RED_KINDS = {
    Kind.REGRESSED,
    Kind.CHANGED,
    Kind.DRIFTED,
    Kind.STALE,
    Kind.ABSORBED,
    Kind.INERT,
    Kind.OVER,
}
NOTES = {Kind.NEW, Kind.FIRST, Kind.UNDER, Kind.WARNING}
UNJUDGED = {Kind.INFRA, Kind.UNMEASURED, Kind.AMBIGUOUS, Kind.STOPPED}


def test_the_policy_gives_every_kind_its_colour():
    assert POLICY.keys() == set(Kind)
    told = {kind: verdicts(kind)[0].colour for kind in Kind}
    assert {kind for kind, colour in told.items() if colour is Colour.RED} == RED_KINDS
    grey = NOTES | UNJUDGED | {Kind.ASSUMED}
    assert {kind for kind, colour in told.items() if colour is Colour.GREY} == grey


def test_a_strict_run_makes_notes_red_and_nothing_else():
    strict = {kind for kind in Kind if replace(verdicts(kind)[0], strict=True).colour is Colour.RED}
    assert strict == RED_KINDS | NOTES


def test_nothing_is_judged_where_another_run_may_tell():
    assert {kind for kind in Kind if not verdicts(kind)[0].is_judged} == UNJUDGED


@pytest.mark.parametrize(
    ("patch", "told"), [(None, "stack.h200.2.11.0.unpatched"), ("mine", "stack.h200.2.11.0.mine")]
)
def test_a_case_is_called_by_its_four_parts(patch, told):
    assert Case(torch="2.11.0", device="h200", workload="stack", patch=patch).id == told


@pytest.mark.parametrize(
    ("item", "fact", "subject"),
    [("stack.h200", "loads", "stack.h200 loads"), ("versions", "", "versions")],
)
def test_a_verdict_is_about_an_item_and_a_fact_of_it_on_the_torch_of_its_case(item, fact, subject):
    case = Case(torch="2.11.0", device="h200", workload="stack")
    verdict = Verdict(code="PG301", kind=RED, check="kernels", case=case, item=item, fact=fact)
    assert (verdict.subject, verdict.torch, verdict.colour) == (subject, "2.11.0", Colour.RED)


def test_a_command_is_typed_by_its_own_name():
    assert (
        str(Command(name="gate", arguments=("a.py", "--nightly"), when="then"))
        == "patchgate gate a.py --nightly"
    )


def test_a_missing_fact_equals_nothing_not_even_itself():
    missing = Unmeasured(reason="no counter")
    assert missing != missing
    assert (missing, 0, "") != (Unmeasured(reason="no counter"), missing, missing)


def test_a_missing_fact_can_be_kept_in_a_set():
    missing = Unmeasured(reason="no counter")
    assert len({missing, Unmeasured(reason="no counter")}) == 2


@pytest.mark.parametrize(
    ("cause", "detail", "told"),
    [
        (Cause.EXITED, "warning\nno thread can be made\n", "; it printed: no thread can be made"),
        (Cause.EXITED, "\x1b[2Jno memory", "; it printed: [2Jno memory"),
        (Cause.EXITED, " \n", ""),
        (Cause.RAISED, "no thread can be made", ""),
    ],
)
def test_a_process_that_exited_is_told_with_its_last_line(cause, detail, told):
    failure = Failure(cause=cause, stage="run", signature="status 1", detail=detail)
    assert failure.text == f"status 1, during `run`{told}"
