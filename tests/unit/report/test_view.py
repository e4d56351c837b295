"""The one view of a run: columns, rows, what a cell says, and what there is to act on."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import verdict as one

from patchgate.checks.framework.find_checks import catalogue
from patchgate.model.policy import Colour, Kind
from patchgate.report.view import Effect, Entry, view

TORCHES = ["2.12.1", "2.9.0"]


def test_columns_are_releases_in_order(verdicts):
    assert view(verdicts, TORCHES).torches == ("2.9.0", "2.12.1")


def test_rows_are_in_reading_order(verdicts):
    assert [(line.check, line.item) for line in view(verdicts, TORCHES).lines] == [
        ("machine", "sentinel.h200"),
        ("gate", "versions"),
        ("kernels", "stack.h200"),
        ("graph", "stack.h200"),
        ("parity", "stack.cpu"),
    ]


def test_a_check_that_nobody_has_ranked_comes_last(verdicts):
    assert (
        view([*verdicts, one(Kind.PASS, check="a new one")], TORCHES).lines[-1].check == "a new one"
    )


def test_where_nothing_was_judged_there_is_no_cell(verdicts):
    assert [line.cells[1] is None for line in view(verdicts, TORCHES).lines] == [
        True,
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("kinds", "colour", "count"),
    [
        ([Kind.PASS, Kind.PASS], Colour.GREEN, 2),
        ([Kind.PASS, Kind.INFRA], Colour.GREY, 1),
        ([Kind.PASS, Kind.INFRA, Kind.CHANGED, Kind.STALE], Colour.RED, 2),
    ],
)
def test_a_cell_says_its_worst_colour_and_how_often(kinds, colour, count):
    (line,) = view([one(kind) for kind in kinds], ["2.9.0"]).lines
    assert (line.cells[0].colour, line.cells[0].count) == (colour, count)


@pytest.mark.parametrize(
    ("kind", "unjudged"), [(Kind.INFRA, True), (Kind.NEW, False), (Kind.PASS, False)]
)
def test_a_cell_and_a_block_say_whether_something_was_not_judged(kind, unjudged):
    shown = view([one(Kind.PASS), one(kind, "PG309")], ["2.9.0"])
    assert shown.lines[0].cells[0].unjudged is unjudged
    assert [block.unjudged for block in shown.blocks] == [unjudged] * (kind is not Kind.PASS)


def test_a_cell_has_the_codes_of_its_worst_colour_only():
    told = [
        one(Kind.NEW, "PG303"),
        one(Kind.CHANGED, "PG301"),
        one(Kind.STALE, "PG306"),
        one(Kind.CHANGED, "PG301"),
    ]
    assert view(told, ["2.9.0"]).lines[0].cells[0].codes == ("PG301", "PG306")


def test_blocks_are_red_first_and_then_in_reading_order(verdicts):
    told = [*verdicts, one(Kind.INFRA, "PG905", "machine")]
    assert [block.code for block in view(told, TORCHES).blocks] == [
        "PG201",
        "PG301",
        "PG905",
        "PG508",
    ]


def test_equal_findings_of_several_releases_share_an_entry(verdicts):
    block = view(verdicts, TORCHES).blocks[1]
    assert block.entries == (
        Entry(
            torches=("2.9.0", "2.12.1"),
            subject="stack.h200 loads",
            expected="[2 4]",
            actual="[2 6]",
        ),
        Entry(torches=("2.9.0",), subject="stack.h200 loads.max", expected="4", actual="6"),
    )


def test_facts_to_record_are_those_that_the_patch_does_not_change():
    first = one(Kind.FIRST, "PG303", subject="changed.cpu changes", actual="loads 2 -> 3")
    new = one(
        Kind.NEW,
        "PG303",
        subject="equal.cpu",
        actual="13 facts, the same with and without the patch",
    )
    told = view([first, new], ["2.9.0"]).unrecorded
    what = "new: 13 facts of equal.cpu that the patch does not change are not recorded yet; "
    assert told.startswith(what) and "changed.cpu" not in told


def test_places_and_next_steps_are_reported_once(verdicts):
    block = view(verdicts, TORCHES).blocks[1]
    assert (block.places, block.next) == (("code/stack.py",), ("mend the patch",))


def test_a_block_leads_to_its_first_cell_and_one_of_no_release_leads_nowhere():
    told = [one(Kind.REGRESSED, "PG301", torch="2.12.1"), one(Kind.INFRA, "PG904", torch="")]
    assert [block.cell for block in view(told, TORCHES).blocks] == [("stack.h200", "2.12.1"), None]


def test_the_title_of_a_block_is_that_of_its_code(verdicts):
    assert [block.title for block in view(verdicts, TORCHES).blocks] == [
        catalogue()[code].title for code in ("PG201", "PG301", "PG508")
    ]


def test_a_verdict_without_a_release_is_in_no_column_but_in_a_block():
    shown = view([one(Kind.INFRA, "PG904", "machine", "", "pytest")], TORCHES)
    assert (shown.lines[0].cells, shown.blocks[0].entries[0].torches) == ((None, None), ())


@given(st.lists(st.sampled_from(range(8)), unique=True, min_size=8, max_size=8))
def test_the_order_of_verdicts_does_not_matter(verdicts, order):
    shown, other = view(verdicts, TORCHES), view([verdicts[index] for index in order], TORCHES)
    assert other == shown


def test_what_the_patch_replaces_is_one_line_for_releases_on_which_it_is_the_same():
    effects = partial(one, Kind.PASS, code="PG211", subject="effects")
    verdicts = [
        effects(torch="2.12.1", actual="torch.a"),
        effects(torch="2.9.0", actual="torch.a"),
        effects(torch="2.13.0", actual="nothing", applies=False),
        one(Kind.PASS, code="PG211", subject="versions", actual="12 versions"),
    ]
    shown = view(verdicts, ("2.12.1", "2.9.0", "2.13.0"))
    assert shown.replaces == (
        Effect(text="torch.a (on torch 2.9.0, 2.12.1)", applies=True),
        Effect(text="nothing (on torch 2.13.0)", applies=False),
    )
    assert shown.notes == (("replaces", tuple(effect.text for effect in shown.replaces)),)
    assert shown.columns == ("2.9.0", "2.12.1", "2.13.0 (does not apply)")


def test_what_the_patch_changes_as_recorded_is_one_line_a_case():
    verdicts = [
        one(Kind.PASS, before="[2 1 6]", after="[2 1 4]"),
        one(Kind.PASS, subject="stack.h200 bytes.total", before="1241528320", after="1216362496"),
        one(Kind.PASS, subject="stack.h200 kernels.called", before="13", after="13"),
        one(Kind.PASS, subject="stack.h200 lowering.ir_nodes", before="33", after="34"),
        one(Kind.REGRESSED, subject="other.h200 loads", before="[2]", after="[1]"),
    ]
    shown = view(verdicts, TORCHES)
    assert shown.changes == {
        "2.9.0": ["stack.h200: loads [2 1 6] -> [2 1 4], bytes 1,241,528,320 -> 1,216,362,496"]
    }
    assert [heading for heading, _ in shown.notes] == ["changes on torch 2.9.0, already accepted"]
