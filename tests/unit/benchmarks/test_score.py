"""Expected against found: what counts as caught, missed and a false alarm, and how certain a share is."""

import pytest

from benchmarks.corpus.cases import CorpusCase, Expected
from benchmarks.corpus.score import CaseResult, score, shares

ROWS = ("2.11.0", "2.13.0")
LATE = Expected(code="PG201", torch="2.13.0..2.15.0", place="patch.py:3")


def case(*expected, kind="gate", needs=""):
    return CorpusCase(id="mine", folder="/p", kind=kind, cells=("lint",), expected=expected, needs=needs)


def told(red, *expected, kind="gate", **found):
    full = {torch: {} for torch in ROWS} | red
    return score(case(*expected, kind=kind), CaseResult(red=full, **found), ROWS)


def test_the_expected_code_at_its_place_on_its_releases_only_is_a_catch():
    result = told({"2.13.0": {"PG201": {"patch.py:3"}}}, LATE)
    assert (result.outcome, result.faults, result.found) == ("caught", (), ("PG201",))


@pytest.mark.parametrize(
    ("red", "fault"),
    [
        ({}, "2.13.0: PG201 missing"),
        ({"2.13.0": {"PG201": {"patch.py:9"}}}, "2.13.0: PG201 at patch.py:9, not patch.py:3"),
        ({"2.13.0": {"PG201": {"patch.py:3"}, "PG301": {"x"}}}, "2.13.0: PG301 unexpected at x"),
        ({"2.11.0": {"PG201": {"y"}}, "2.13.0": {"PG201": {"patch.py:3"}}}, "2.11.0: PG201 unexpected at y"),
    ],
)
def test_anything_else_is_a_miss_and_says_why(red, fault):
    result = told(red, LATE)
    assert (result.outcome, result.faults) == ("MISSED", (fault,))


def test_a_code_that_needs_a_torch_is_not_expected_where_none_was_run():
    red = {"2.13.0": {"PG201": {"patch.py:3"}}, "2.15.0": {}}
    assert told(red, LATE).right
    assert not told({"2.15.0": {}}, Expected(code="PG113", torch="2.15.0")).right


def test_a_case_for_other_releases_is_not_counted():
    result = told({}, Expected(code="PG201", torch="2.15.0"))
    assert (result.right, result.outcome) == (True, "not on these rows")
    assert [share.total for share in shares([result])] == [0] * 5


def test_a_sound_case_is_quiet_or_a_false_alarm():
    assert told({}, kind="sound").outcome == "quiet"
    assert told({"2.11.0": {"PG801": set()}}, kind="sound").outcome == "FALSE ALARM"


def test_what_could_not_be_judged_is_not_green():
    assert not told({}, kind="sound", grey=("2.11.0: parity: no compiler",)).right


def test_a_case_that_needs_a_gpu_counts_nowhere():
    result = score(case(LATE, needs="a GPU"), CaseResult(red={}), ROWS)
    assert (result.outcome, [share.total for share in shares([result])]) == ("needs a GPU", [0] * 5)


def test_shares_are_by_class_then_over_all_then_false_alarms():
    caught = told({"2.13.0": {"PG201": {"patch.py:3"}}}, LATE)
    found = shares([caught, told({}, LATE), told({}, kind="sound")])
    assert [str(share).split(" (")[0] for share in found] == [
        "caught, gate: 1 of 2",
        "caught, all classes: 1 of 2",
        "false alarms on sound patches: 0 of 1",
        "hostile patches with their own verdict: 0 of 0",
        "seeded faults detected: 0 of 0",
        "false alarms in unchanged cells: 0 of 0",
    ]
