"""The charts of docs/ are drawn from the figures that stand there and in golden/, and are up to
date.
"""

import re
from itertools import pairwise

import pytest

from benchmarks.report.plots import (
    DOCS,
    Chart,
    Line,
    draw,
    drawings,
    flips_chart,
    latency_ratios,
    releases_chart,
)


@pytest.mark.parametrize("name", drawings())
def test_a_drawing_is_up_to_date(name):
    assert (DOCS / name).read_text("utf-8") == drawings()[name], (
        "python -m benchmarks.report charts"
    )


def test_every_size_that_was_measured_is_drawn():
    ratios = latency_ratios((DOCS / "latency.md").read_text("utf-8"))
    assert list(ratios) == [1, 64, 1024, 4096, 16384]
    assert all(interval.low <= interval.ratio <= interval.high for interval in ratios.values())


def test_the_flips_at_the_sampled_length_are_those_of_the_table():
    lines = {
        line.name: line.points
        for line in flips_chart((DOCS / "case-42686.md").read_text("utf-8")).lines
    }
    at_64 = [round(100 * share, 1) for share in lines["H200, greedy"][2][1:]]
    assert at_64 == [4.6, 1.6, 13.0]
    assert all(low <= share <= high for points in lines.values() for _, share, low, high in points)


def test_each_release_is_drawn_as_golden_has_it():
    unpatched, patched = releases_chart().lines
    assert [y for _, y, _, _ in unpatched.points] == [6, 6, 6, 6, 2, 2]
    assert [y for _, y, _, _ in patched.points] == [4, 4, 4, 4]


def test_names_at_the_ends_of_lines_do_not_overlap_and_marks_differ():
    flat = [
        Line(name=name, points=[(0, 1, 1, 1), (1, 1, 1, 1)]) for name in ("one", "two", "three")
    ]
    chart = Chart(
        title="t",
        x_title="x",
        x_ticks=[(0, "0"), (1, "1")],
        y_ticks=[(0, "0"), (2, "2")],
        lines=flat,
    )
    svg = draw(chart)
    places = sorted(
        float(y) for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)">(?:one|two|three)<', svg)
    )
    assert min(b - a for a, b in pairwise(places)) >= 14
    assert [svg.count(mark) for mark in ("<circle", "<rect", "<path")] == [2, 2, 2]
