"""Is the workload slower, or larger, than the budget allows? Timed in pairs on a real GPU; nightly
on the CPU.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Fault,
    Instance,
    Kind,
    Patch,
    Verdict,
    Verdicts,
    failure_of,
    fault_of,
    read_codes,
    verdict_of,
)
from patchgate.model.budgets import judge_change, show_budget
from patchgate.model.facts import COSTS
from patchgate.model.files import write_atomically
from patchgate.model.records import Budget, Failure, record
from patchgate.model.serialization import from_dict, to_dict
from patchgate.model.statistics import (
    LOOK_CONFIDENCE,
    LOOKS,
    ROUNDS,
    SECONDS,
    Interval,
    Round,
    hull,
    quantiles,
    ratio_interval,
)
from patchgate.runner.cache_keys import patch_digest
from patchgate.runner.run_settings import Run

FAMILY = "latency"
CODES = read_codes("""
PG611 over budget on the device
    The whole interval of the ratio patched / unpatched lies above its budget (`latency`, or
    `cpu_latency` for the CPU); or peak memory is above `peak_memory`.
    Why: Every step of a model in service pays this.
    Fix: Compare the generated code of both sides. If the cost is accepted, widen the budget in
    the manifest and say so in the pull request.
PG612 a gain on the device
    The whole interval of the ratio lies below its budget (`latency`, or `cpu_latency` for the CPU);
    or peak memory is below `peak_memory`. It is a note where no manifest gives a budget, and red
    where one does: its claim is wrong.
    Why: The gain can be lost again, and no user of the project would notice.
    Fix: Record it in the manifest: [budgets] latency = "-7 % .. 0.5 %".
PG613 within budget on the device
    The whole interval of the ratio lies within the budget.
    Why: Pairs are measured, and the placement in memory is part of the noise.
    Fix: Nothing to do.
PG614 too close to the budget to tell
    After all measurements the interval of the ratio still contains an end of the budget; or kernels
    were autotuned, and the tunings disagree.
    Why: A result here would be a guess.
    Fix: Run on a quieter machine, or set the budget further from the real cost of the patch.
PG619 could not be timed
    One side did not compile or run on the device, or the machine failed.
    Why: A latency that was not measured is not within budget.
    Fix: Read the failure. The kernels check says whether the patch or torch caused it.
""")
verdict = partial(verdict_of, FAMILY)
_CODES = {Kind.PASS: "PG613", Kind.AMBIGUOUS: "PG614"}
# The limits that hold if the manifest has no budget. A gain beyond them is a note.
_BUDGETS = {
    # Wider than the resolution of paired timing in one look (docs/latency.md), so that equal code
    # stays within the limit.
    "latency": Budget(low=-0.005, high=0.005),
    # With other work on the machine, equal code differs by more than on a GPU (docs/latency.md).
    "cpu_latency": Budget(low=-0.05, high=0.05),
    "peak_memory": Budget(low=0.0, high=COSTS["peak_memory"].limit),
}
_QUANTILES = ("p50", "p95", "p99")
# The time limit with autotuning, as a multiple of the limit of one case: dozens of candidates run
# for each kernel before anything is timed.
_TUNING = 8
# The addition to this multiple for waiting until the run's other cases leave the device.
_QUEUE = 4


@record
class Timing:
    """Paired times of one workload at one size, and other measurements of the same process."""

    rounds: tuple[Round, ...]  #: microseconds by side; on the CPU, of the process's own clock
    peak_memory: dict[str, int]  #: bytes by side
    first_call: dict[str, float]  #: seconds by side
    elapsed: tuple[Round, ...] = ()  #: on the CPU, microseconds of wall-clock time
    warm_up: str = ""  #: says if times were steady before they were taken
    tuned: bool = False  #: True if the kernels were tuned, anew for each look

    @property
    def looks(self) -> tuple[tuple[Round, ...], ...]:
        return tuple(
            self.rounds[first : first + ROUNDS] for first in range(0, len(self.rounds), ROUNDS)
        )

    @property
    def interval(self) -> Interval:
        """The interval of all rounds; for tuned kernels the hull of the intervals of all looks,
        because one choice of tuning affects all rounds of a look.
        """
        if self.tuned:
            return hull([ratio_interval(look, LOOK_CONFIDENCE) for look in self.looks])
        return ratio_interval(self.rounds, LOOK_CONFIDENCE)

    @property
    def metric(self) -> str:
        """The name of the budget that applies. GPU and CPU have separate budgets, because the cost
        of a patch on one says nothing of its cost on the other.
        """
        return "cpu_latency" if self.elapsed else "latency"


def timed_devices(run: Run) -> list[str]:
    """The run's real devices and, in a nightly run, its CPU."""
    real = [device for device in run.devices if run.profile(device)["kind"] == "real"]
    return [*real, *(device for device in run.devices if device == "cpu" and run.nightly)]


@Check(
    axes=("torch", "device", "workload", "size"),
    workloads="latency",
    devices=timed_devices,
    unchanged="none",
)
def ask_latency(context: CheckContext, at: Instance) -> Verdicts:
    timing = _timing(context, at)
    where = context.patch.place_of("budgets")
    if isinstance(timing, Failure):
        return [judge_untimed(at.case, at.size, timing, where)]
    return judge_timing(at.case, at.size, context.patch, timing, where)


def _timing(context: CheckContext, at: Instance) -> Timing | Failure:
    """Time the workload; take further looks, up to LOOKS, until the verdict is settled."""
    case, looks = at.case, list[Timing]()
    while len(looks) < LOOKS and not (looks and is_settled(context.patch, join(looks))):
        answer = _look(context, at, seed=len(looks))
        failure = failure_of(answer)
        if failure:
            return failure
        looks.append(timing_of(answer, where=f"times of {case.workload}"))
        name = f"{case.workload}.{case.device}.{at.size}.{case.torch}.{len(looks)}.json"
        content = answer | {"case": to_dict(case), "size": at.size}
        write_atomically(
            Path(context.run.folder) / "times" / name, json.dumps(content, sort_keys=True) + "\n"
        )
    return join(looks)


def _look(context: CheckContext, at: Instance, seed: int) -> Answer:
    run, patch, torch = context.run, context.patch, at.case.torch
    workload, shared = context.workload(at.case.workload), Path(run.folder).resolve().parent
    return context.ask_building(
        torch,
        "time",
        at.case.device,
        workload=workload,
        patch=patch,
        compiles=(_TUNING if "autotune" in workload.mode else 1) + _QUEUE,
        queue="" if at.case.device == "cpu" else str(context.runner.device_lock),
        size=at.size,
        built=str(shared / "triton" / torch / patch_digest(patch)),
        # Each patch has its own folder, so that no patch is timed with the tuning of another.
        tuned=str(shared / "tuned" / torch / patch_digest(patch) / str(seed)),
        rounds=ROUNDS,
        for_seconds=SECONDS,
        seed=seed,
    )


def timing_of(answer: Answer, where: str) -> Timing:
    """The times of one look. Raises UsageError if the answer has none."""
    return from_dict(
        Timing,
        {one.name: answer[one.name] for one in fields(Timing) if one.name in answer},
        where=where,
    )


def join(timings: Sequence[Timing]) -> Timing:
    """All looks as one: the rounds of all looks, and all other measurements of the first look."""
    rounds, elapsed = (
        tuple(one for t in timings for one in getattr(t, name)) for name in ("rounds", "elapsed")
    )
    return replace(timings[0], rounds=rounds, elapsed=elapsed)


def is_settled(patch: Patch, timing: Timing) -> bool:
    """True if another look could not change the verdict. A change of tuned kernels is never
    settled before all looks are taken.
    """
    kind = _kind(patch, timing, timing.interval)
    return kind in (Kind.PASS, Kind.AMBIGUOUS) if timing.tuned else kind is not Kind.AMBIGUOUS


def budget_of(patch: Patch, metric: str) -> Budget:
    """Return the budget of the manifest, or the default."""
    return patch.claims.budgets.get(metric, _BUDGETS[metric])


def _kind(patch: Patch, timing: Timing, interval: Interval) -> Kind:
    stated = timing.metric in patch.claims.budgets
    return judge_change(
        budget_of(patch, timing.metric), interval.low - 1, interval.high - 1, stated=stated
    )


def _code(kind: Kind, worse: bool) -> str:
    """The code of a change. Beyond the budget, `worse` decides between loss and gain."""
    return _CODES.get(kind) or ("PG611" if worse else "PG612")


def judge_timing(case: Case, size: str, patch: Patch, timing: Timing, where: str) -> list[Verdict]:
    """One verdict on the time, judged by the whole interval, and one on the peak memory if it was
    measured. `where` is the line of the budgets.
    """
    interval = timing.interval
    kind = _kind(patch, timing, interval)
    expected = f"a change within {show_budget(budget_of(patch, timing.metric))}"
    place = None if kind is Kind.PASS else where
    code, text = _code(kind, interval.low > 1), _times_text(timing, interval)
    verdicts = [verdict(code, kind, case, f"{size} latency", expected, text, place)]
    if timing.peak_memory:
        verdicts.append(_memory(case, size, patch, timing.peak_memory, where))
    return verdicts


def _times_text(timing: Timing, interval: Interval) -> tuple[str, ...]:
    before, after = (
        quantiles([time for one in timing.rounds for time in getattr(one, side)])
        for side in ("unpatched", "patched")
    )
    figures = [
        f"{name} {old:.1f} -> {new:.1f} us"
        for name, old, new in zip(_QUANTILES, before, after, strict=True)
    ]
    parts = [f"ratio {interval}", *figures]
    if timing.tuned:
        parts[0] += f" in {len(timing.looks)} tunings" if timing.looks[1:] else " in one tuning"
    if timing.elapsed:
        parts.append(f"elapsed {ratio_interval(timing.elapsed, LOOK_CONFIDENCE)}")
    first = timing.first_call
    first_call = f"first call {first['unpatched']:.1f} -> {first['patched']:.1f} s"
    return tuple(filter(None, (", ".join(parts), first_call, timing.warm_up)))


def _memory(case: Case, size: str, patch: Patch, peak: dict[str, int], where: str) -> Verdict:
    budget = budget_of(patch, "peak_memory")
    before, after = peak["unpatched"], peak["patched"]
    change = (after - before) / before if before else float(after > 0)
    kind = judge_change(budget, change, change, stated="peak_memory" in patch.claims.budgets)
    expected, place = f"a change within {show_budget(budget)}", None if kind is Kind.PASS else where
    actual = f"{before:,} -> {after:,} bytes"
    return verdict(
        _code(kind, change > 0), kind, case, f"{size} peak memory", expected, actual, place
    )


def judge_untimed(case: Case, size: str, failure: Failure, where: str) -> Verdict:
    """The verdict if there are no times. One process runs both sides, so the kernels check decides
    whose fault a failure is.
    """
    kind = Kind.INFRA if fault_of(None, failure) is Fault.MACHINE else Kind.UNMEASURED
    actual = failure.text
    return verdict(
        "PG619", kind, case, f"{size} latency", "paired times", actual, failure.where or where
    )
