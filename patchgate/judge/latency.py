"""Paired times of a workload -> PG61x: slower than the budget, faster than it, within it, or cannot tell.

Decides by the whole interval, never by a single figure, and how often to look
again. Refuses to know how times were taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchgate.budgets import budget_of, judge_change, show_budget
from patchgate.codes import verdict_of
from patchgate.interval import Interval, Round, quantiles, ratio_interval
from patchgate.model import Cause, Failure, Kind, Patch, Verdict

# Rounds of one look, each a placement in memory; even, so that each side is placed first in half of them.
ROUNDS = 8
# Seconds of paired runs in one look.
SECONDS = 2.0
CONFIDENCE = 0.99
# An interval that straddles a budget is looked at again, up to this often in all. Each look has its share
# of the error, so all looks together still raise a false alarm in at most 1 of 100 comparisons.
LOOKS = 3
LOOK_CONFIDENCE = 1 - (1 - CONFIDENCE) / LOOKS
_CODES = {Kind.OVER: "PG611", Kind.UNDER: "PG612", Kind.PASS: "PG613", Kind.AMBIGUOUS: "PG614"}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """All rounds of one workload at one size, and what was measured beside them: bytes and seconds by side."""

    rounds: tuple[Round, ...]
    peak_memory: dict[str, int]
    first_call: dict[str, float]

    @property
    def interval(self) -> Interval:
        return ratio_interval(self.rounds, LOOK_CONFIDENCE)


def is_settled(patch: Patch, timing: Timing) -> bool:
    """Whether another look could not change the verdict."""
    return _latency_kind(patch, timing.interval) is not Kind.AMBIGUOUS


def _latency_kind(patch: Patch, interval: Interval) -> Kind:
    return judge_change(budget_of(patch.claims, "latency"), interval.low - 1, interval.high - 1)


def judge_timing(torch: str, subject: str, patch: Patch, timing: Timing, where: str) -> list[Verdict]:
    """One verdict on the time, one on the peak memory; `where` is the manifest's line of the budgets."""
    interval = timing.interval
    before, after = (
        quantiles([time for one in timing.rounds for time in getattr(one, side)]) for side in ("unpatched", "patched")
    )
    told = f"ratio {interval}, p50 {before[0]:.1f} -> {after[0]:.1f} us, p99 {before[2]:.1f} -> {after[2]:.1f} us"
    told += f"; first call {timing.first_call['unpatched']:.1f} -> {timing.first_call['patched']:.1f} s"
    kind = _latency_kind(patch, interval)
    budget = show_budget(budget_of(patch.claims, "latency"))
    verdicts = [_verdict(kind, torch, f"{subject} latency", f"a change within {budget}", told, where)]
    if timing.peak_memory:
        verdicts.append(_memory(torch, subject, patch, timing.peak_memory, where))
    return verdicts


def _memory(torch: str, subject: str, patch: Patch, peak: dict[str, int], where: str) -> Verdict:
    budget = budget_of(patch.claims, "peak_memory")
    before, after = peak["unpatched"], peak["patched"]
    change = (after - before) / before if before else float(after > 0)
    kind = judge_change(budget, change, change)
    told = f"{before:,} -> {after:,} bytes"
    return _verdict(kind, torch, f"{subject} peak memory", f"a change within {show_budget(budget)}", told, where)


def judge_untimed(torch: str, subject: str, failure: Failure, where: str) -> Verdict:
    """No times: the machine's trouble, or left to the kernels check, which judges whose fault it is."""
    kind = Kind.INFRA if failure.cause is Cause.MACHINE else Kind.UNMEASURED
    told = f"{failure.cause.value}: {failure.signature} [{failure.stage}]"
    place = failure.where or where
    return verdict_of("latency", "PG619", kind, torch, f"{subject} latency", "paired times", told, place)


def _verdict(kind: Kind, torch: str, subject: str, expected: str, actual: str, where: str) -> Verdict:
    place = None if kind is Kind.PASS else where
    return verdict_of("latency", _CODES[kind], kind, torch, subject, expected, actual, place)


def join(timings: Sequence[Timing]) -> Timing:
    """All looks as one: their rounds together, memory and first calls of the first."""
    rounds = tuple(one for timing in timings for one in timing.rounds)
    return Timing(rounds=rounds, peak_memory=timings[0].peak_memory, first_call=timings[0].first_call)
