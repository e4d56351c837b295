"""Expected against found: what counts as caught, missed and a false alarm, and how certain a share
is.
"""

from datetime import date

import pytest

from benchmarks.corpus.cases import CorpusCase, Expected
from benchmarks.corpus.render import as_markdown, as_text
from benchmarks.corpus.score import CaseResult, Share, by_class, by_code, lost, score, shares
from patchgate.model.results import Example

ROWS = ("2.11.0", "2.13.0")
LATE = Expected(codes=("PG201",), torch="2.13.0..2.15.0", place="patch.py:3")


def case(*expected, **fields):
    own = {"id": "mine", "folder": "/p", "kind": "gate", "cells": ("lint", "api"), **fields}
    return CorpusCase(**own, expected=expected)


def told(red, *expected, grey=(), **fields):
    full = {torch: {} for torch in ROWS} | red
    return score(case(*expected, **fields), CaseResult(red=full, grey=grey), ROWS)


def test_the_expected_code_at_its_place_on_its_releases_only_is_a_catch():
    result = told({"2.13.0": {"PG201": {"patch.py:3"}}}, LATE)
    assert (result.outcome, result.faults, result.found) == ("caught", (), ("PG201",))


@pytest.mark.parametrize(
    ("red", "fault", "outcome"),
    [
        ({}, "2.13.0: PG201 missing", "MISSED"),
        (
            {"2.13.0": {"PG201": {"patch.py:9"}}},
            "2.13.0: PG201 at patch.py:9, not patch.py:3",
            "ANOTHER REASON",
        ),
    ],
)
def test_a_verdict_that_is_not_there_or_elsewhere_is_no_catch(red, fault, outcome):
    result = told(red, LATE)
    assert (result.outcome, result.faults, result.met) == (outcome, (fault,), {"gate": False})


@pytest.mark.parametrize(
    ("subject", "outcome"),
    [("graph mlp.cpu dynamo.graph_breaks", "caught"), ("graph mlp.cpu fx.ops", "ANOTHER REASON")],
)
def test_an_expectation_may_name_what_the_verdict_is_about(subject, outcome):
    breaks = Expected(codes=("PG401",), about="dynamo.graph_breaks")
    red = {"2.13.0": {"PG401": ("x",)}}
    result = CaseResult(red=red, about={"2.13.0": {"PG401": (subject,)}})
    assert score(case(breaks), result, ROWS).outcome == outcome


def test_the_table_by_code_counts_cases():
    scores = [
        told({"2.13.0": {"PG201": {"patch.py:3"}, "PG301": {"x"}}}, LATE),
        told({}, LATE),
        told({"2.13.0": {"PG301": {"x"}}}, kind="sound"),
        score(case(kind="sound"), CaseResult(red={"2.13.0": {}}, notes=("PG803",)), ROWS),
    ]
    rows = [
        (each.code, each.expected, each.others, each.sound, each.notes) for each in by_code(scores)
    ]
    assert rows == [("PG201", 1, 0, 0, 0), ("PG301", 0, 1, 1, 0), ("PG803", 0, 0, 0, 1)]


@pytest.mark.parametrize(
    ("red", "fault"),
    [
        ({"2.13.0": {"PG201": {"patch.py:3"}, "PG301": {"x"}}}, "2.13.0: PG301 unexpected at x"),
        (
            {"2.11.0": {"PG201": {"y"}}, "2.13.0": {"PG201": {"patch.py:3"}}},
            "2.11.0: PG201 unexpected at y",
        ),
    ],
)
def test_what_is_red_besides_is_a_fault_and_no_miss(red, fault):
    result = told(red, LATE)
    assert (result.outcome, result.faults, result.met) == (
        "caught, and more",
        (fault,),
        {"gate": True},
    )
    assert not result.settled


def test_one_of_several_codes_is_enough():
    either = Expected(codes=("PG208", "PG219"), torch="2.13.0")
    assert told({"2.13.0": {"PG219": {"x"}}}, either).outcome == "caught"
    assert told({}, either).faults == ("2.13.0: PG208 or PG219 missing",)


def test_lint_and_the_gate_are_scored_apart():
    static = Expected(codes=("PG113",), torch="2.15.0")
    result = told({"2.15.0": {"PG113": {"x"}}}, static, LATE)
    assert (result.outcome, result.met) == ("MISSED", {"lint": True, "gate": False})


def test_a_known_miss_is_no_catch_and_fails_no_run():
    missed = told({}, LATE, known="nobody looks there")
    assert (missed.outcome, missed.settled) == ("MISSED", True)
    assert by_class([missed])[-1].caught.hits == 0
    assert not told({}, LATE).settled


def test_a_known_miss_that_is_caught_by_now_is_named():
    caught = told({"2.13.0": {"PG201": {"patch.py:3"}}}, LATE, known="nobody looks there")
    assert "known to be wrong, and right by now: mine" in as_text([caught], ROWS, 1.0, "seen")


def test_a_code_that_needs_a_torch_is_not_expected_where_none_was_run():
    red = {"2.13.0": {"PG201": {"patch.py:3"}}, "2.15.0": {}}
    assert told(red, LATE).right
    assert not told({"2.15.0": {}}, Expected(codes=("PG113",), torch="2.15.0")).right


def test_a_case_for_other_releases_is_not_counted():
    result = told({}, Expected(codes=("PG201",), torch="2.15.0"))
    assert (result.right, result.outcome) == (True, "not on these rows")
    assert result.settled
    assert by_class([result])[-1].caught.total == 0


def test_a_sound_case_is_quiet_or_a_false_alarm():
    assert told({}, kind="sound").outcome == "quiet"
    assert told({"2.11.0": {"PG801": set()}}, kind="sound").outcome == "FALSE ALARM"


def test_what_could_not_be_judged_is_not_green():
    result = told({}, kind="sound", grey=("2.11.0: parity: no compiler",))
    assert (result.right, result.outcome) == (False, "not all judged")
    assert by_class([result])[-1].alarms["lint"].total == 0


def test_a_case_that_was_lost_has_the_reason_and_counts_nowhere():
    result = lost(case(LATE, known="nobody looks there"), "Traceback\n  here\nOSError: disk full")
    assert (result.outcome, result.faults, result.settled) == (
        "LOST",
        ("OSError: disk full",),
        False,
    )
    assert by_class([result])[-1].caught.total == 0


def test_a_case_that_needs_a_gpu_counts_nowhere():
    result = score(case(LATE, needs="a GPU"), CaseResult(red={}), ROWS)
    assert (result.outcome, by_class([result])[-1].caught.total) == ("needs a GPU", 0)


def test_shares_are_by_class_and_tool_then_over_all():
    static = Expected(codes=("PG113",), torch="2.15.0")
    scores = [
        told({"2.13.0": {"PG201": {"patch.py:3"}}}, LATE),
        told({"2.15.0": {}}, LATE, static, id="other"),
        told({"2.15.0": {"PG113": {"x"}}}, static, id="drift", kind="signature"),
        told({"2.11.0": {"PG801": {"x"}}}, id="mine-fixed", kind="sound"),
        told({}, id="alone", kind="sound"),
        told({}, id="attack", kind="hostile"),
    ]
    counts = {
        row.kind: [
            (share.hits, share.total)
            for share in (row.caught, *row.by.values(), *row.alarms.values())
        ]
        for row in by_class(scores)
    }
    # Caught, by lint, by the gate; false alarms of lint, of the gate.
    assert counts == {
        "gate": [(1, 2), (0, 1), (1, 2), (0, 1), (1, 1)],
        "no broken form": [(0, 0), (0, 0), (0, 0), (0, 1), (0, 1)],
        "signature": [(1, 1), (1, 1), (0, 0), (0, 0), (0, 0)],
        "all": [(2, 3), (1, 2), (1, 2), (0, 2), (1, 2)],
    }
    assert {what: (share.hits, share.total) for what, share in shares(scores).items()} == {
        "hostile patches with their own verdict": (1, 1),
        "seeded faults detected": (0, 0),
        "false alarms in unchanged cells": (0, 0),
    }


def test_a_share_says_how_certain_it_is():
    assert str(Share(hits=10, total=20)) == "10 of 20 (30% to 70%)"
    assert str(Share(hits=0, total=0)) == "-"


def test_the_page_names_its_set_and_what_is_known_to_be_wrong():
    scores = [told({}, LATE, known="nobody looks there")]
    name, day = "fresh set", date(2026, 11, 22)
    text, page = as_text(scores, ROWS, 1.0, name), as_markdown(scores, ROWS, name, day, gpu=False)
    assert "fresh set" in text
    assert "known to be wrong: mine: nobody looks there" in text
    assert "The fresh set, judged on 22 November 2026 on torch" in page
    assert ", 2.13.0, without a GPU." in page
    assert "| mine | gate | PG201 | - | MISSED (known) |" in page
    assert "\n* mine: nobody looks there\n" in page
    red = told({"2.13.0": {"PG301": {"/tmp/made/here.py"}}}, kind="sound")
    page = as_markdown([red], ROWS, "fresh", date(2026, 11, 22), gpu=True)
    assert "\n* mine: 2.13.0: PG301 unexpected\n" in page
    assert ", 2.13.0, with a GPU." in page


def test_an_unexpected_verdict_is_shown_with_what_it_says() -> None:
    example = Example(code="PG301", case="mine", where="x", text="loads 2 -> 3")
    red = {"2.11.0": {}, "2.13.0": {"PG301": ("x",)}}
    result = score(case(kind="sound"), CaseResult(red=red, examples=(example,)), ROWS)
    assert result.faults == ("2.13.0: PG301 unexpected at x: loads 2 -> 3",)
