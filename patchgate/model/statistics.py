"""Confidence intervals of the ratio patched / unpatched, and of a share.

A comparison is group-sequential: after each look (a group of ROUNDS rounds of paired runs) it ends
when the interval settles the budget, at the latest after LOOKS. Scipy takes a second to import, so
it is imported where it computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Rounds of one look, each a placement in memory; even, so that each side is placed first in half of
# them.
ROUNDS = 8
# Seconds of paired runs in one look.
SECONDS = 2.0
CONFIDENCE = 0.99
# An interval that straddles a budget is looked at again, up to this often in all. Each look has its
# share of the error, so all looks together still raise a false alarm in at most 1 of 100
# comparisons.
LOOKS = 3
LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / LOOKS
# The quantile of the normal distribution that leaves out 2.5 %.
_NORMAL = 1.959963984540054
# Share of pairs left out at either end of a round: an interrupt is no property of a kernel.
_TRIMMED = 0.1


@dataclass(frozen=True, kw_only=True)
class Round:
    """Times of one placement in memory, in microseconds; the two lists are pairs."""

    unpatched: tuple[float, ...]
    patched: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """The ratio patched / unpatched."""

    ratio: float
    low: float  #: lower end of the confidence interval
    high: float  #: upper end

    def __str__(self) -> str:
        return f"{self.ratio:.4f} [{self.low:.4f}, {self.high:.4f}]"


def ratio_interval(rounds: Sequence[Round], confidence: float) -> Interval:
    """Student's interval over the rounds of the mean log ratio of their pairs.

    Rounds, not pairs, are the sample: pairs of one round share where its memory lies, which moves
    the ratio by as much as a small regression. A bootstrap over a dozen rounds would be too narrow.
    A trimmed mean, not a median: the clock of a device ticks coarsely, and medians stick to its
    ticks.
    """
    if len(rounds) < 3:
        raise ValueError(f"{len(rounds)} rounds: an interval needs at least 3")
    from scipy import stats

    logs = [float(stats.trim_mean(_log_ratios(one), _TRIMMED)) for one in rounds]
    middle, spread = float(stats.tmean(logs)), float(stats.sem(logs))
    reach = float(stats.t.ppf((1 + confidence) / 2, len(logs) - 1)) * spread
    return Interval(
        ratio=math.exp(middle), low=math.exp(middle - reach), high=math.exp(middle + reach)
    )


def hull(intervals: Sequence[Interval]) -> Interval:
    """From the lowest end to the highest, with the geometric mean of the ratios."""
    middle = math.exp(sum(math.log(one.ratio) for one in intervals) / len(intervals))
    return Interval(
        ratio=middle, low=min(one.low for one in intervals), high=max(one.high for one in intervals)
    )


def _log_ratios(one: Round) -> list[float]:
    return [
        math.log(after / before) for before, after in zip(one.unpatched, one.patched, strict=True)
    ]


def quantiles(times: Sequence[float]) -> tuple[float, float, float]:
    """p50, p95 and p99."""
    from scipy import stats

    p50, p95, p99 = (float(value) for value in stats.mstats.mquantiles(times, (0.5, 0.95, 0.99)))
    return p50, p95, p99


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, sound for none and for all.

    Raises ValueError without a sample.
    """
    if not 0 <= count <= of or not of:
        raise ValueError(f"no share: {count} of {of}")
    share, error = count / of, _NORMAL**2 / of
    middle = (share + error / 2) / (1 + error)
    reach = _NORMAL * math.sqrt(share * (1 - share) / of + error / (4 * of)) / (1 + error)
    return (middle - reach if count else 0.0), (middle + reach if count < of else 1.0)
