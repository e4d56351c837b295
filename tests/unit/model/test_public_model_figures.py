"""Compare the figures of models: both sides, their change, their order, and a line of the sum."""

from dataclasses import replace

import pytest

from patchgate.model.public_model_figures import Change, Part, impact_of
from patchgate.model.records import Case, Cause, Failure, Observation, Unmeasured

FACTS = {
    "kernels.called": 4,
    "kernels.kind.extern": 2,
    "kernels.distinct": 3,
    "bytes.total": 100,
    "memory.peak": 10,
}


def side(*, patch=None, failure=None, **facts):
    case = Case(torch="2.11.0", device="h200", workload="x", patch=patch)
    return Observation(case=case, failure=failure, facts={} if failure else FACTS | facts)


def part(moved=100, count=1, **facts):
    return Part(
        count=count, before=side(), after=side(patch="p", **{"bytes.total": moved}, **facts)
    )


def impact(**models):
    return impact_of(models, before="unpatched", after="p")


FAILED = Failure(cause=Cause.RAISED, stage="inductor", signature="KeyError: 'x'")


def test_a_launch_is_a_kernel_or_a_call_of_a_library():
    (row,) = impact(one=[part(**{"kernels.called": 5, "kernels.kind.fallback": 1})]).rows
    assert row.changes["launches"] == Change(before=6, after=8)
    assert row.changes["launches"].share == pytest.approx(1 / 3)


def test_equal_layers_count_as_often_as_the_model_has_them_but_its_peak_is_the_largest():
    (row,) = impact(one=[part(110, count=3), part(**{"memory.peak": 50})]).rows
    assert row.changes["bytes"] == Change(before=400, after=430)
    assert row.changes["launches"] == Change(before=24, after=24)
    assert row.changes["peak memory"] == Change(before=10, after=50)


def test_what_a_side_lacks_is_not_compared_and_no_column():
    lacks = {"bytes.total": Unmeasured(reason="not counted")}
    one = impact(one=[Part(before=side(), after=side(patch="p", **lacks))])
    assert "bytes" not in one.rows[0].changes
    assert [figure.name for figure in one.figures] == ["launches", "kernels", "peak memory"]


def test_a_network_that_could_not_be_made_says_nothing_of_the_compiler():
    unmade = Part(before=side(), after=side(patch="p", failure=replace(FAILED, stage="build")))
    both = impact(
        broken=[Part(before=side(), after=side(patch="p", failure=FAILED))], unmade=[unmade]
    )
    assert [(row.model, row.broken) for row in both.rows] == [("broken", True), ("unmade", False)]
    assert both.summary == "2 models: 1 no longer compiles (broken), 1 not compared (unmade)"


def test_the_line_sums_up_and_what_matters_comes_first():
    broken = Part(before=side(), after=side(patch="p", failure=FAILED))
    missing = {"compiles": Unmeasured(reason="needs a real device")}
    both = impact(
        same=[part()],
        few=[part(**{"kernels.distinct": 2})],
        little=[
            Part(
                before=side(**{"bytes.total": 1000}), after=side(patch="p", **{"bytes.total": 995})
            )
        ],
        much=[part(50)],
        worse=[part(120)],
        gone=[broken],
        never=[Part(before=side(failure=FAILED), after=side(failure=FAILED))],
        device=[Part(before=side(**missing), after=side(**missing))],
    )
    assert [row.model for row in both.rows] == [
        "device",
        "gone",
        "never",
        "few",
        "much",
        "worse",
        "little",
        "same",
    ]
    assert both.summary == (
        "8 models: 1 no longer compiles (gone), 1 with more bytes moved (+20.0 %: worse),"
        " 1 with fewer bytes moved (-50.0 %: much), 2 changed in other figures only, or by less "
        "than 1 %, 1 unchanged,"
        " 2 not compared (device, never)"
    )
    assert both.rows[0].failed == "torch 2.11.0, unpatched: needs a real device"
    assert both.rows[1].failed == "torch 2.11.0, p: KeyError: 'x', during `inductor`"


def test_the_line_has_memory_beside_bytes():
    both = impact(
        much=[part(120, **{"memory.peak": 90})],
        more=[part(**{"memory.peak": 30})],
        less=[part(50, **{"memory.peak": 1})],
        same=[part()],
    )
    assert both.summary == (
        "4 models: 1 with more bytes moved (+20.0 %: much), 1 with fewer bytes moved (-50.0 %: "
        "less),"
        " 2 with more memory at the peak (up to +800.0 %: much),"
        " 1 with less memory at the peak (-90.0 %: less), 1 unchanged"
    )
    assert [row.model for row in both.rows] == ["less", "much", "more", "same"]


def test_launches_come_before_kernels_before_bytes_before_memory():
    figures = {
        "memory": part(**{"memory.peak": 90}),
        "moved": part(60),
        "kernels": part(**{"kernels.distinct": 4}),
        "launches": part(**{"kernels.called": 5}),
    }
    assert [row.model for row in impact(**{name: [one] for name, one in figures.items()}).rows] == [
        *figures
    ][::-1]


def test_a_peak_that_alignment_moves_is_in_the_table_only():
    large = side(**{"memory.peak": 100_000})
    one = impact(one=[Part(before=large, after=side(patch="p", **{"memory.peak": 100_512}))])
    assert one.rows[0].changed
    assert "memory" not in one.summary


@pytest.mark.parametrize(("before", "after", "share"), [(0, 0, 0.0), (0, 1, None), (4, 5, 0.25)])
def test_from_nothing_there_is_no_share(before, after, share):
    assert Change(before=before, after=after).share == share


def test_without_models_there_is_nothing_to_compare():
    assert impact().summary == "0 models: nothing to compare"
