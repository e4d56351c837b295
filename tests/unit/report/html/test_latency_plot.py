"""The drawing of ratios: one self-contained SVG that holds every interval."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.records import Budget
from patchgate.model.statistics import Interval
from patchgate.report.html.latency_plot import HEIGHT, WIDTH, draw_flips, draw_latency

NAME = "{http://www.w3.org/2000/svg}"
RATIOS = st.floats(0.2, 5)
INTERVALS = (
    st.tuples(RATIOS, RATIOS, RATIOS)
    .map(sorted)
    .map(lambda ends: Interval(ratio=ends[1], low=ends[0], high=ends[2]))
)
POINTS = st.dictionaries(st.integers(1, 1 << 20), INTERVALS, min_size=1, max_size=8)


def drawn(points, title="t"):
    return ElementTree.fromstring(draw_latency(points, title))


@given(POINTS)
def test_every_point_and_interval_lies_on_the_page(points):
    dots = list(drawn(points).iter(f"{NAME}circle"))
    assert len(dots) == len(points)
    assert all(
        0 < float(dot.get("cx")) < WIDTH and 0 < float(dot.get("cy")) < HEIGHT for dot in dots
    )
    paths = [path.get("d") for path in drawn(points).iter(f"{NAME}path")]
    figures = [float(figure) for path in paths for figure in re.findall(r"[\d.]+", path)]
    assert all(0 <= figure <= WIDTH for figure in figures)


@given(POINTS)
def test_larger_is_higher_and_more_tokens_are_further_right(points):
    ordered = [interval for _, interval in sorted(points.items())]
    dots = [
        (float(dot.get("cx")), float(dot.get("cy"))) for dot in drawn(points).iter(f"{NAME}circle")
    ]
    assert [x for x, _ in dots] == sorted(x for x, _ in dots)
    by_ratio = sorted(
        zip((interval.ratio for interval in ordered), (y for _, y in dots), strict=True)
    )
    assert [y for _, y in by_ratio] == sorted((y for _, y in by_ratio), reverse=True)


def test_nothing_is_fetched_and_each_point_says_its_figures():
    text = draw_latency({4096: Interval(ratio=0.9869, low=0.9856, high=0.9882)}, "a <b> & c")
    assert "a &lt;b&gt; &amp; c" in text
    assert "4,096 tokens: -1.31 % (-1.44 % to -1.18 %)" in text
    assert re.findall(r"(?:href|src|url)", text) == []


def test_a_budget_is_a_band_that_lies_on_the_page_and_without_a_style_there_is_none():
    point = {64: Interval(ratio=1.0, low=0.999, high=1.001)}
    budget = Budget(low=-0.02, high=0.005)
    root = ElementTree.fromstring(draw_latency(point, "t", budget))
    (band,) = root.iter(f"{NAME}rect")
    assert float(band.get("y")) >= 0
    assert float(band.get("y")) + float(band.get("height")) <= HEIGHT
    assert list(root.iter(f"{NAME}style")) == []
    alone = ElementTree.fromstring(draw_latency(point, "t", style=".dot{fill:red}"))
    assert (list(alone.iter(f"{NAME}rect")), len(list(alone.iter(f"{NAME}style")))) == ([], 1)


def test_the_chance_that_a_text_changes_grows_with_its_length():
    text = draw_flips((0.0005, 0.0001, 0.002))
    assert "64 tokens: 3.15 % (0.638 % to 12.03 %)" in text
    assert "1,024 tokens: 40.08 % (9.734 % to 87.13 %)" in text
    assert ">0 %</text>" in text and "equal" not in text


def test_nothing_measured_is_no_drawing():
    with pytest.raises(ValueError, match="nothing was measured"):
        draw_latency({}, "t")
