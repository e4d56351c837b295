"""Paired times of a workload -> PG61x: slower than the budget, faster than it, within it, or cannot tell.

Decides by the whole interval, never by a single figure, and whether to look
again. Refuses to know how times were taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from patchgate.checks.codes import verdict_of
from patchgate.model.budgets import budget_of, judge_change, show_budget
from patchgate.model.records import Cause, Failure, Kind, Patch, Verdict
from patchgate.model.serialization import Answer, from_dict
from patchgate.model.statistics import LOOK_CONFIDENCE, ROUNDS, Interval, Round, hull, quantiles, ratio_interval

_CODES = {Kind.OVER: "PG611", Kind.UNDER: "PG612", Kind.PASS: "PG613", Kind.AMBIGUOUS: "PG614"}
_QUANTILES = ("p50", "p95", "p99")


_verdict = partial(verdict_of, "latency")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """All rounds of one workload at one size, and what was measured beside them: bytes and seconds by side.

    On the CPU the times are those of the process's own clock, and `elapsed` is what went by meanwhile. `warm_up`
    tells whether times were steady before they were taken. `tuned` are kernels that were tuned, anew for each look.
    """

    rounds: tuple[Round, ...]
    peak_memory: dict[str, int]
    first_call: dict[str, float]
    elapsed: tuple[Round, ...] = ()
    warm_up: str = ""
    tuned: bool = False

    @property
    def looks(self) -> tuple[tuple[Round, ...], ...]:
        return tuple(self.rounds[first : first + ROUNDS] for first in range(0, len(self.rounds), ROUNDS))

    @property
    def interval(self) -> Interval:
        """Of all rounds; of tuned kernels that of all looks, because what a tuning chose is in each of its rounds."""
        if self.tuned:
            return hull([ratio_interval(look, LOOK_CONFIDENCE) for look in self.looks])
        return ratio_interval(self.rounds, LOOK_CONFIDENCE)

    @property
    def metric(self) -> str:
        """The budget that holds: what a patch costs on a GPU says nothing of the CPU."""
        return "cpu_latency" if self.elapsed else "latency"


def timing_of(answer: Answer, where: str) -> Timing:
    """What the probe told of one look. Raises UsageError when that is no times."""
    return from_dict(Timing, {one.name: answer[one.name] for one in fields(Timing) if one.name in answer}, where=where)


def is_settled(patch: Patch, timing: Timing) -> bool:
    """Whether another look could not change the verdict; a change of tuned kernels is believed when all tell it."""
    kind = _kind(patch, timing, timing.interval)
    return kind in (Kind.PASS, Kind.AMBIGUOUS) if timing.tuned else kind is not Kind.AMBIGUOUS


def _kind(patch: Patch, timing: Timing, interval: Interval) -> Kind:
    return judge_change(budget_of(patch.claims, timing.metric), interval.low - 1, interval.high - 1)


def judge_timing(torch: str, subject: str, patch: Patch, timing: Timing, where: str) -> list[Verdict]:
    """One verdict on the time, one on the peak memory; `where` is the manifest's line of the budgets."""
    interval = timing.interval
    kind = _kind(patch, timing, interval)
    expected = f"a change within {show_budget(budget_of(patch.claims, timing.metric))}"
    place = None if kind is Kind.PASS else where
    told = _told(timing, interval)
    verdicts = [_verdict(_CODES[kind], kind, torch, f"{subject} latency", expected, told, place)]
    if timing.peak_memory:
        verdicts.append(_memory(torch, subject, patch, timing.peak_memory, where))
    return verdicts


def _told(timing: Timing, interval: Interval) -> str:
    before, after = (
        quantiles([time for one in timing.rounds for time in getattr(one, side)]) for side in ("unpatched", "patched")
    )
    figures = [f"{name} {old:.1f} -> {new:.1f} us" for name, old, new in zip(_QUANTILES, before, after, strict=True)]
    told = [f"ratio {interval}", *figures]
    if timing.tuned:
        told[0] += f" in {len(timing.looks)} tunings" if timing.looks[1:] else " in one tuning"
    if timing.elapsed:
        told.append(f"elapsed {ratio_interval(timing.elapsed, LOOK_CONFIDENCE)}")
    first = timing.first_call
    beside = [", ".join(told), f"first call {first['unpatched']:.1f} -> {first['patched']:.1f} s", timing.warm_up]
    return "; ".join(filter(None, beside))


def _memory(torch: str, subject: str, patch: Patch, peak: dict[str, int], where: str) -> Verdict:
    budget = budget_of(patch.claims, "peak_memory")
    before, after = peak["unpatched"], peak["patched"]
    change = (after - before) / before if before else float(after > 0)
    kind = judge_change(budget, change, change)
    told = f"{before:,} -> {after:,} bytes"
    expected, place = f"a change within {show_budget(budget)}", None if kind is Kind.PASS else where
    return _verdict(_CODES[kind], kind, torch, f"{subject} peak memory", expected, told, place)


def judge_untimed(torch: str, subject: str, failure: Failure, where: str) -> Verdict:
    """No times: the machine's trouble, or left to the kernels check, which judges whose fault it is."""
    kind = Kind.INFRA if failure.cause is Cause.MACHINE else Kind.UNMEASURED
    told = f"{failure.cause.value}: {failure.signature} [{failure.stage}]"
    return _verdict("PG619", kind, torch, f"{subject} latency", "paired times", told, failure.where or where)


def join(timings: Sequence[Timing]) -> Timing:
    """All looks as one: their rounds together, memory and first calls of the first."""
    rounds, elapsed = (tuple(one for t in timings for one in getattr(t, name)) for name in ("rounds", "elapsed"))
    return replace(timings[0], rounds=rounds, elapsed=elapsed)
