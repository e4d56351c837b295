"""Confidence intervals of the ratio patched / unpatched, and of a share.

A comparison is group-sequential. A look is a group of ROUNDS rounds of paired runs. After each
look, the comparison ends if the interval settles the budget; it ends after LOOKS looks in any case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev

from patchgate.model.records import record

# Rounds of one look, each with its own placement in memory. The number is even, so that each side
# is placed first in half of the rounds.
ROUNDS = 8
# Seconds of paired runs in one look.
SECONDS = 2.0
CONFIDENCE = 0.99
# If the interval straddles a budget, another look follows, up to this number in all. Each look has
# its share of the error, so all looks together still raise a false alarm in at most 1 of 100
# comparisons.
LOOKS = 3
LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / LOOKS
# The normal distribution exceeds this quantile with a probability of 2.5 %.
_NORMAL = 1.959963984540054
# This share of the sorted pairs is left out at either end: an interrupt is no property of a kernel.
_TRIMMED = 0.1


@record
class Round:
    """Times with one placement in memory, in microseconds. Times at the same index are a pair."""

    unpatched: tuple[float, ...]
    patched: tuple[float, ...]


@record
class Interval:
    """The ratio patched / unpatched."""

    ratio: float
    low: float  #: lower end of the confidence interval
    high: float  #: upper end

    def __str__(self) -> str:
        return f"{self.ratio:.4f} [{self.low:.4f}, {self.high:.4f}]"


def ratio_interval(rounds: Sequence[Round], confidence: float) -> Interval:
    """Student's confidence interval of the ratio. Each round counts with the mean log ratio of its
    pairs.

    The sample is rounds, not pairs: the pairs of a round share a placement in memory, which moves
    the ratio by as much as a small regression. A bootstrap over a dozen rounds would be too narrow.
    The mean is a trimmed mean, because a median would stick to the coarse ticks of a device's
    clock.
    """
    if len(rounds) < 3:
        raise ValueError(f"{len(rounds)} rounds: an interval needs at least 3")
    logs = [_mean_log_ratio(one) for one in rounds]
    middle, spread = mean(logs), stdev(logs) / math.sqrt(len(logs))
    reach = student_quantile(confidence, len(logs) - 1) * spread
    return Interval(
        ratio=math.exp(middle), low=math.exp(middle - reach), high=math.exp(middle + reach)
    )


def student_quantile(confidence: float, freedom: int) -> float:
    """The bound b such that Student's t lies between -b and b with this confidence."""
    low, high = 0.0, 1e9
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _student_within(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return high


def _student_within(bound: float, freedom: int) -> float:
    """The probability that Student's t lies within a bound on both sides: a finite series for whole
    degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    angle = math.atan(bound / math.sqrt(freedom))
    is_odd = freedom % 2
    term = math.cos(angle) if is_odd else 1.0
    series = term if freedom > 1 else 0.0
    for power in range(2 + is_odd, freedom - 1, 2):
        term *= math.cos(angle) ** 2 * (power - 1) / power
        series += term
    product = math.sin(angle) * series
    return 2 / math.pi * (angle + product) if is_odd else product


def _mean_log_ratio(one: Round) -> float:
    """The mean of a round's log ratios without the smallest and the largest of them."""
    pairs = zip(one.unpatched, one.patched, strict=True)
    ratios = sorted(math.log(after / before) for before, after in pairs)
    cut = int(_TRIMMED * len(ratios))
    return mean(ratios[cut : len(ratios) - cut])


def hull(intervals: Sequence[Interval]) -> Interval:
    """The interval from the lowest end to the highest, with the geometric mean of the ratios."""
    middle = math.exp(sum(math.log(one.ratio) for one in intervals) / len(intervals))
    return Interval(
        ratio=middle, low=min(one.low for one in intervals), high=max(one.high for one in intervals)
    )


def quantiles(times: Sequence[float]) -> tuple[float, float, float]:
    """Return the quantiles p50, p95 and p99."""
    ordered = sorted(times)

    def at(share: float) -> float:
        """The time at a share of the sorted times, interpolated between its two neighbours."""
        place = min(max(0.4 + share * (len(ordered) + 0.2), 1), len(ordered))
        below, above = ordered[int(place) - 1], ordered[math.ceil(place) - 1]
        return below + (above - below) * (place % 1)

    return at(0.5), at(0.95), at(0.99)


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, which is also valid for a share of 0 or 1.

    Raises ValueError without a sample.
    """
    if not 0 <= count <= of or not of:
        raise ValueError(f"no share: {count} of {of}")
    share, error = count / of, _NORMAL**2 / of
    middle = (share + error / 2) / (1 + error)
    reach = _NORMAL * math.sqrt(share * (1 - share) / of + error / (4 * of)) / (1 + error)
    return (middle - reach if count else 0.0), (middle + reach if count < of else 1.0)
