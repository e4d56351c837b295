"""PG61x: every verdict seen, with its neighbour on the other side of the budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchgate.checks import compile_cost
from patchgate.checks.latency import (
    _BUDGETS,
    Timing,
    budget_of,
    is_settled,
    join,
    judge_timing,
    judge_untimed,
    timing_of,
)
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.budgets import METRICS, judge_change
from patchgate.model.errors import UsageError
from patchgate.model.facts import COSTS
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Budget, Case, Cause, Failure, Verdict
from patchgate.model.serialization import to_dict
from patchgate.model.statistics import CONFIDENCE, LOOK_CONFIDENCE, LOOKS, Round

CASE = Case(torch="2.11.0", device="cuda", workload="stack", patch="p")
PATCH = Patch(
    id="p",
    path="patch.py",
    source="",
    claims=Claims(title="t", budgets={"latency": Budget(low=-0.01, high=0.01)}),
)


def timing(ratio: float, spread: float = 0.0001, memory: tuple[int, int] = (1000, 1000)) -> Timing:
    """Eight rounds around `ratio`, `spread` apart."""
    made = [
        Round(
            unpatched=(100.0,) * 10,
            patched=(100.0 * (ratio + (spread if number % 2 else -spread)),) * 10,
        )
        for number in range(8)
    ]
    return Timing(
        rounds=tuple(made),
        peak_memory={"unpatched": memory[0], "patched": memory[1]},
        first_call={"unpatched": 2.0, "patched": 3.0},
    )


def judged(found: Timing) -> list[Verdict]:
    return judge_timing(CASE, "64", PATCH, found, "patch.toml:9")


@pytest.mark.parametrize(
    ("ratio", "spread", "code", "kind"),
    [
        (1.0, 0.0001, "PG613", Kind.PASS),
        (1.0095, 0.0001, "PG613", Kind.PASS),
        (1.0105, 0.0001, "PG611", Kind.OVER),
        (1.0105, 0.002, "PG614", Kind.AMBIGUOUS),
        (0.9895, 0.0001, "PG612", Kind.OVER),  # the manifest states a budget
        (0.9905, 0.0001, "PG613", Kind.PASS),
        (0.9895, 0.002, "PG614", Kind.AMBIGUOUS),
    ],
)
def test_the_whole_interval_decides(ratio, spread, code, kind):
    time, _ = judged(timing(ratio, spread))
    assert (time.code, time.kind) == (code, kind)
    assert (time.where is None) is (kind is Kind.PASS)
    assert is_settled(PATCH, timing(ratio, spread)) is (kind is not Kind.AMBIGUOUS)


def test_the_figures_are_reported():
    time, _ = judged(timing(1.02))
    assert time.subject == "stack.cuda 64 latency"
    assert time.expected == "a change within 1 %"
    assert time.actual.startswith(
        "ratio 1.0200 [1.0198, 1.0202], p50 100.0 -> 102.0 us, p95 100.0 -> 102.0 us, p99 "
    )
    assert time.actual.endswith("first call 2.0 -> 3.0 s")
    time, _ = judged(replace(timing(1.02), warm_up="warm after 3 blocks"))
    assert time.actual.endswith("first call 2.0 -> 3.0 s; warm after 3 blocks")


@pytest.mark.parametrize(
    ("memory", "code", "colour"),
    [
        ((1000, 1000), "PG613", Colour.GREEN),
        ((1000, 1020), "PG613", Colour.GREEN),
        ((1000, 1021), "PG611", Colour.RED),
        ((1000, 999), "PG612", Colour.GREY),
        ((0, 1), "PG611", Colour.RED),
    ],
)
def test_more_memory_beyond_the_limit_is_red_and_less_a_note(memory, code, colour):
    _, peak = judged(timing(1.0, memory=memory))
    assert (peak.code, peak.colour, peak.subject) == (code, colour, "stack.cuda 64 peak memory")


def test_a_gain_is_a_note_where_no_budget_is_stated():
    patch = replace(PATCH, claims=Claims(title="t"))
    time, _ = judge_timing(CASE, "64", patch, timing(0.98), "patch.toml:1")
    assert (time.code, time.colour) == ("PG612", Colour.GREY)


def test_a_device_that_tells_no_memory_gets_no_verdict_on_it():
    assert [verdict.subject for verdict in judged(replace(timing(1.0), peak_memory={}))] == [
        "stack.cuda 64 latency"
    ]


def test_the_cpu_has_a_budget_of_its_own_and_what_went_by_is_reported_and_not_judged():
    slower, waited = timing(1.02), timing(1.5)
    on_cpu = replace(slower, elapsed=waited.rounds, peak_memory={})
    (verdict,) = judged(on_cpu)
    assert (verdict.code, verdict.expected) == ("PG613", "a change within 5 %")
    assert "elapsed 1.5000 [1.4998, 1.5002]" in verdict.actual
    assert judged(replace(on_cpu, rounds=timing(1.06).rounds))[0].code == "PG611"
    assert judged(slower)[0].code == "PG611"
    assert len(join([on_cpu, on_cpu]).elapsed) == 16


@pytest.mark.parametrize(
    ("ratios", "kind", "settled"),
    [
        ((1.0,), Kind.PASS, True),
        ((1.02,), Kind.OVER, False),
        ((1.02, 1.02), Kind.OVER, False),
        ((0.98, 0.98, 0.98), Kind.OVER, False),
        ((1.02, 1.0), Kind.AMBIGUOUS, True),
        ((1.02, 0.98), Kind.AMBIGUOUS, True),
    ],
)
def test_a_change_of_tuned_kernels_is_believed_when_every_tuning_tells_it(ratios, kind, settled):
    found = replace(join([timing(ratio) for ratio in ratios]), tuned=True)
    assert judged(found)[0].kind is kind
    assert is_settled(PATCH, found) is settled


def test_the_number_of_tunings_is_reported_and_no_round_is_lost_in_the_middle():
    one, three = (
        replace(join([timing(ratio) for ratio in ratios]), tuned=True)
        for ratios in ((1.0,), (0.9, 1.0, 1.1))
    )
    assert "] in one tuning, p50" in judged(one)[0].actual
    assert "ratio 0.9967 [0.8998, 1.1002] in 3 tunings, p50" in judged(three)[0].actual


def test_what_the_probe_told_of_a_look_is_read():
    made = timing(1.02)
    answer = to_dict(made) | {"environment": {}}
    assert timing_of(answer, "here") == made
    with pytest.raises(UsageError, match="here"):
        timing_of({"rounds": []}, "here")


@pytest.mark.parametrize(
    ("cause", "kind"), [(Cause.MACHINE, Kind.INFRA), (Cause.RAISED, Kind.UNMEASURED)]
)
def test_what_was_not_timed_is_grey(cause, kind):
    failure = Failure(cause=cause, stage="compile", signature="no device", where="patch.py:3")
    found = judge_untimed(CASE, "64", failure, "patch.toml:9")
    assert (found.code, found.kind, found.colour, found.where) == (
        "PG619",
        kind,
        Colour.GREY,
        "patch.py:3",
    )
    assert found.subject == "stack.cuda 64 latency"


def test_looks_share_the_error():
    assert pytest.approx(1 - CONFIDENCE) == LOOKS * (1 - LOOK_CONFIDENCE)
    assert len(join([timing(1.0), timing(1.0)]).rounds) == 16


def test_a_manifest_overrides_what_holds_without():
    assert budget_of(PATCH, "latency") == Budget(low=-0.01, high=0.01)
    assert budget_of(PATCH, "cpu_latency") == Budget(low=-0.05, high=0.05)


def test_every_metric_has_a_default_that_no_change_at_all_is_within():
    defaults = {**_BUDGETS, compile_cost.METRIC: compile_cost._BUDGET}
    assert sorted({*defaults, *COSTS}) == sorted(METRICS)
    assert {judge_change(budget, 0.0, 0.0, stated=False) for budget in defaults.values()} == {
        Kind.PASS
    }
