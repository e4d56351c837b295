"""Find changes between runs: transitions, flaky cells, failures by their cause, and the check-list
of them.
"""

from dataclasses import replace

import pytest
from expecttest import assert_expected_inline

from patchgate.model.results import Transition, VerdictKey, VerdictSummary
from patchgate.report.history import render_checklist, render_transitions
from patchgate.runs.history.regressions import failure_groups, flaky, regressions_in, transitions

CELL = VerdictKey("mine", "2.11.0", "kernels", "stack.h200", "loads")


def key(check, subject):
    item, _, fact = subject.partition(" ")
    return VerdictKey("p", "t", check, item, fact)


def red(code="PG301", actual="6"):
    return VerdictSummary("red", code, actual)


GREEN, GREY = VerdictSummary("green", "PG300", "2"), VerdictSummary("grey", "PG905", "killed")


def test_only_changes_of_verdict_are_transitions():
    keys = [VerdictKey("p", "t", "c", name, "") for name in "abcde"]
    before = dict(zip(keys, [GREEN, red(), red(), GREY, GREEN], strict=True))
    after = dict(zip(keys, [red(), GREEN, red("PG305"), red(), GREY], strict=True))
    changed = [(each.key.subject, str(each)) for each in transitions(before, after)]
    assert changed == [
        ("a", "green -> red (PG301)"),
        ("b", "red -> green (PG300)"),
        ("c", "PG301 -> PG305"),
    ]
    assert list(transitions(after, after)) == []
    assert list(render_transitions([])) == ["nothing changed since the last run"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"calls": GREEN}, {"calls of f": red("PG803")}, [("calls of f", "green -> red (PG803)")]),
        ({"calls of f": red("PG803")}, {"calls": GREEN}, [("calls of f", "red -> green")]),
        ({"calls": GREY}, {"calls of f": red("PG803")}, []),
        ({}, {"calls of f": red("PG803")}, []),
        ({"calls": GREEN}, {"calls": GREEN, "hooks": GREEN}, []),
    ],
)
def test_what_is_newly_dead_turned_though_its_subject_is_new(before, after, told):
    runs = [
        {key("reach", subject): each for subject, each in run.items()} for run in (before, after)
    ]
    assert [(each.key.subject, str(each)) for each in transitions(*runs)] == told


def test_a_transition_is_reported_with_its_title():
    absent = VerdictSummary("green", "", "")
    changed = [
        Transition(key=CELL, before=GREEN, after=red("PG304")),
        Transition(key=CELL, before=red(), after=absent),
    ]
    told = list(render_transitions(changed))
    assert told[1:] == [
        "  mine on torch 2.11.0: kernels stack.h200 loads: green -> red (PG304): torch does the "
        "same without the patch",
        "  mine on torch 2.11.0: kernels stack.h200 loads: red -> green",
    ]


@pytest.mark.parametrize(
    ("colours", "is_flaky"),
    [
        ([GREEN, red(), GREEN, red()], True),
        ([GREEN, GREY, GREEN, GREY], False),
        ([GREEN, GREEN, red(), red()], False),
    ],
)
def test_a_flaky_cell_is_one_that_turns_again_and_again(colours, is_flaky):
    assert flaky([{CELL: colour} for colour in colours]) == ([CELL] if is_flaky else [])


def many(told):
    return {key("c", str(n)): told for n in range(22)}


@pytest.mark.parametrize(
    ("runs", "bucket"),
    [
        ([many(GREEN), many(red())], "new"),
        ([many(red("PG301", "6 at 0x1f")), many(red("PG301", "7 at 0x2a"))], "still"),
        ([many(red()), many(GREEN)], "newly silent"),
        ([many(red()), many(GREEN), many(GREEN)], "closed"),
        ([many(red()), many(GREY)], "still"),
        ([many(red()), {}], "still"),
        ([many(red()), {}, many(GREEN)], "newly silent"),
        ([many(red()), many(GREEN), many(GREY)], "newly silent"),
        ([many(red()), many(GREEN), many(GREY), many(GREEN)], "closed"),
    ],
)
def test_cells_with_one_cause_are_one_line_in_its_bucket(runs, bucket):
    (group,) = failure_groups(runs)
    assert (group.bucket, len(group.keys)) == (bucket, 22)


def at(check, *subjects, told=GREEN):
    return {key(check, subject): told for subject in subjects}


@pytest.mark.parametrize(
    ("failed", "later", "bucket"),
    [
        (
            at("kernels", "stack.h200 compiles"),
            at("kernels", "stack.h200 loads", "other.h200 loads"),
            "newly silent",
        ),
        (at("kernels", "stack.h200 compiles"), at("kernels", "other.h200 loads"), "still"),
        (at("kernels", "stack.h200 compiles"), at("graph", "stack.h200 graphs"), "still"),
        (
            at("kernels", "stack.h200 compiles"),
            at("kernels", "stack.h200 loads", told=GREY),
            "still",
        ),
        (at("reach", "calls of torch.a.f"), at("reach", "calls"), "newly silent"),
        (at("reach", "torch.f"), at("reach", "calls"), "newly silent"),
        (at("reach", "torch.f"), at("reach", "calls") | at("reach", "hooks", told=GREY), "still"),
    ],
)
def test_a_subject_that_exists_only_while_it_fails_is_silent_when_its_place_was_judged(
    failed, later, bucket
):
    (group,) = failure_groups([dict.fromkeys(failed, red()), later])
    assert group.bucket == bucket


def test_a_checklist_is_ticked_when_closed_and_escaped():
    regressions = regressions_in([many(red("PG301", "<script>")), many(GREEN), many(GREEN)])
    assert_expected_inline(
        "\n".join(render_checklist(replace(regressions, flaky=(CELL,)))),
        """\
- [x] **closed** PG301 kernel facts changed: &lt;script> (22 checks)
  - p on torch t: c 0
  - p on torch t: c 1
  - p on torch t: c 10
  - p on torch t: c 11
  - p on torch t: c 12
  - and 17 more
- [ ] **flaky** (1 checks)
  - mine on torch 2.11.0: kernels stack.h200 loads""",
    )
