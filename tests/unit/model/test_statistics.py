"""The interval of a ratio: right in the middle, as wide as rounds differ, and rarely wrong."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.statistics import (
    Interval,
    Round,
    quantiles,
    ratio_interval,
    share_interval,
    student_quantile,
)


def rounds(ratio, *, placements, noise, pairs=40, seed=0):
    """Rounds whose pairs share a placement: log-normal, sd `placements` between rounds and `noise`
    within.
    """
    chance = random.Random(seed)
    made = []
    for _ in range(placements[1]):
        shift = chance.gauss(0, placements[0])
        before = [800.0 + chance.gauss(0, 10) for _ in range(pairs)]
        after = [time * ratio * (1 + shift + chance.gauss(0, noise)) for time in before]
        made.append(Round(unpatched=tuple(before), patched=tuple(after)))
    return made


def test_equal_rounds_give_the_ratio_and_no_width():
    one = Round(unpatched=(100.0, 200.0, 50.0), patched=(101.0, 202.0, 50.5))
    found = ratio_interval([one] * 4, 0.99)
    assert found.ratio == pytest.approx(1.01)
    assert (found.low, found.high) == (pytest.approx(1.01), pytest.approx(1.01))


def test_an_outlier_among_the_pairs_moves_nothing():
    clean = Round(unpatched=(100.0,) * 20, patched=(100.0,) * 20)
    hit = Round(unpatched=(100.0,) * 20, patched=(100.0,) * 19 + (9000.0,))
    assert ratio_interval([hit] * 4, 0.99) == ratio_interval([clean] * 4, 0.99)


def test_rounds_that_differ_widen_the_interval_as_pairs_cannot():
    narrow = ratio_interval(rounds(1.0, placements=(0.0, 8), noise=0.005), 0.99)
    wide = ratio_interval(rounds(1.0, placements=(0.002, 8), noise=0.005), 0.99)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_false_alarms_and_detection_are_as_promised():
    equal = [
        ratio_interval(rounds(1.0, placements=(0.0007, 8), noise=0.005, seed=s), 0.99)
        for s in range(300)
    ]
    slower = [
        ratio_interval(rounds(1.003, placements=(0.0007, 8), noise=0.005, seed=s), 0.99)
        for s in range(300)
    ]
    # 0.5 % expected either side of 1; the bounds are those of a binomial at one in a million.
    assert sum(one.low > 1 for one in equal) <= 10
    assert sum(one.high < 1 for one in equal) <= 10
    assert sum(one.low > 1 for one in slower) >= 285


def test_a_higher_confidence_is_wider():
    made = rounds(1.0, placements=(0.001, 8), noise=0.005)
    assert ratio_interval(made, 0.9967).low < ratio_interval(made, 0.99).low


def test_two_rounds_are_too_few():
    with pytest.raises(ValueError, match="2 rounds"):
        ratio_interval(rounds(1.0, placements=(0.001, 2), noise=0.005), 0.99)


def test_it_reads_as_a_figure_with_its_error():
    assert str(Interval(ratio=0.94, low=0.9391, high=0.941)) == "0.9400 [0.9391, 0.9410]"


@pytest.mark.parametrize(
    ("confidence", "freedom", "bound"),
    [
        (0.95, 1, 12.7062),
        (0.95, 2, 4.3027),
        (0.95, 10, 2.2281),
        (0.99, 7, 3.4995),
        (0.99, 23, 2.8073),
    ],
)
def test_the_quantile_is_students(confidence, freedom, bound):
    assert student_quantile(confidence, freedom) == pytest.approx(bound, abs=5e-5)


def test_quantiles():
    assert quantiles(range(1, 101)) == (
        pytest.approx(50.5),
        pytest.approx(95.6, abs=0.5),
        pytest.approx(99.6, abs=0.5),
    )


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 64, 0.0, 0.0566), (64, 64, 0.9434, 1.0), (3, 64, 0.0161, 0.1290), (5, 10, 0.2366, 0.7634)],
)
def test_the_interval_is_wilsons(count, of, low, high):
    assert share_interval(count, of) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 5000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_the_interval_holds_the_share_and_stays_a_probability(sample):
    count, of = sample
    low, high = share_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1


@pytest.mark.parametrize(("count", "of"), [(0, 0), (2, 1), (-1, 4)])
def test_without_a_sample_there_is_no_share(count, of):
    with pytest.raises(ValueError):
        share_interval(count, of)
