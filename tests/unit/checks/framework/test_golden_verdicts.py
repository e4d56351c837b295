"""Facts against golden: every code of PG3xx and PG4xx raised once, and what its verdict says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from patchgate.checks.framework.golden_verdicts import Compared, judge_facts
from patchgate.model.facts import check_of
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import (
    Budget,
    Case,
    Cause,
    Command,
    Expectation,
    Facts,
    FactValue,
    Failure,
    Observation,
    Unmeasured,
    Verdict,
)

MISSING = Unmeasured(reason="no counter")


AGAIN = Command(name="gate", arguments=("mine.py",), when="then")
Two = tuple[FactValue | None, FactValue | None]


def observation(
    facts: Facts | None = None, cause: Cause | None = None, patch: str | None = None
) -> Observation:
    signature = "TypeError: boom"
    case = Case(torch="2.11.0", device="h200", workload="stack", patch=patch)
    failure = (
        Failure(cause=cause, stage="compile", signature=signature, where="patch.py:3")
        if cause
        else None
    )
    return Observation(
        case=case, facts=facts or {}, failure=failure, artifacts={"code": "code/stack.py"}
    )


def compared(
    unpatched: Observation,
    patched: Observation,
    recorded: Facts,
    recorded_unpatched: Facts,
    **more: Any,
) -> Compared:
    """Both sides of a case against what is recorded of them on the same release."""
    return Compared(
        unpatched=unpatched,
        patched=patched,
        recorded=Expectation(facts=recorded),
        recorded_unpatched=Expectation(facts=recorded_unpatched),
        **{"release": "2.11.0", "advice": "read the code", "commands": (AGAIN,)} | more,
    )


def judge(
    check: str = "kernels",
    *,
    held: Two = (6, 4),
    now: Two = (6, 4),
    known: str | None = None,
    fact: str = "loads.max",
    causes: tuple[Cause | None, Cause | None] = (None, None),
    release: str = "2.11.0",
) -> list[Verdict]:
    """Verdicts for one fact: what is recorded and what is now, each (unpatched, patched)."""
    facts: list[Facts] = [{fact: value} if value is not None else {} for value in (*held, *now)]
    unpatched = observation({} if causes[0] else facts[2], causes[0])
    patched = observation({} if causes[1] else facts[3], causes[1], "mine")
    both = compared(unpatched, patched, facts[1], facts[0], release=release)
    return list(
        judge_facts(check, replace(both, recorded=replace(both.recorded, known_failure=known)))
    )


# codes of kernels, graph and options -> what raises it, and a neighbour that gives another.
RAISED = {
    ("PG300", "PG400", "PG430"): {},
    ("PG301", "PG401", "PG431"): {"now": (6, 5)},
    ("PG302", "PG402", "PG432"): {"now": (5, 5)},
    ("PG303", "PG403", "PG433"): {"held": (None, None), "now": (4, 4)},
    ("PG304", "PG404", "PG434"): {"now": (4, 4)},
    ("PG305", "PG405", "PG435"): {"now": (6, 6)},
    ("PG306", "PG406", "PG436"): {"known": "TypeError: boom"},
    ("PG308", "PG408", "PG438"): {"now": (6, MISSING)},
}


@pytest.mark.parametrize(("codes", "state"), RAISED.items())
def test_each_kind_has_its_code_in_each_check(codes, state):
    (kernels,) = judge("kernels", **state)
    (graph,) = judge("graph", fact="fx.ops", **state)
    (options,) = judge("options", fact="options.mode.default", **state)
    assert (kernels.code, graph.code, options.code) == codes


@pytest.mark.parametrize("state", RAISED.values())
def test_a_fact_is_judged_by_one_check_only(state):
    assert judge("graph", **state) == judge("kernels", fact="fx.ops", **state) == []


@pytest.mark.parametrize(
    ("causes", "known", "code"),
    [
        ((None, Cause.RAISED), None, "PG301"),
        ((Cause.RAISED, Cause.RAISED), None, "PG302"),
        ((None, Cause.RAISED), "TypeError: boom", "PG307"),
        ((None, Cause.RAISED), "TypeError: another", "PG301"),
        ((None, Cause.HUNG), None, "PG301"),
        ((None, Cause.MACHINE), None, "PG309"),
        ((Cause.MACHINE, None), None, "PG309"),
        ((Cause.HUNG, Cause.HUNG), None, "PG309"),
    ],
)
def test_a_case_that_failed_has_one_verdict_in_the_kernels_check(causes, known, code):
    (verdict,) = judge(causes=causes, known=known)
    assert (verdict.code, verdict.subject, verdict.where) == (
        code,
        "stack.h200 compiles",
        "patch.py:3",
    )
    side = "patched" if causes[1] else "unpatched"
    machine = "machine: " * (Cause.MACHINE in causes)
    assert verdict.actual == f"{side}: {machine}TypeError: boom, during `compile`"
    if verdict.colour is Colour.RED and causes[1] and not causes[0]:
        assert [command.name for command in verdict.commands] == ["gate"], (
            "no failure is meant to be accepted"
        )
    assert judge("graph", fact="fx.ops", causes=causes, known=known) == []


@pytest.mark.parametrize(("now", "code"), [(4, "PG300"), (5, "PG302")])
def test_the_patched_facts_are_judged_although_the_unpatched_side_failed(now, code):
    assert [verdict.code for verdict in judge(now=(None, now), causes=(Cause.RAISED, None))] == [
        code
    ]


@pytest.mark.parametrize(
    ("state", "expected", "actual"),
    [
        ({}, "4 (unpatched 6)", "4"),
        ({"held": (6, 6), "now": (6, 6)}, "6", "6"),
        ({"now": (6, 5)}, "4 (unpatched 6)", "5"),
        ({"now": (5, 5)}, "4 (unpatched recorded 6, now 5)", "5"),
        (
            {"held": (None, None)},
            "nothing of this patch is accepted here yet, and no cost is worse beyond its limit",
            "loads.max 6 -> 4",
        ),
        (
            {"held": (None, None), "fact": "bytes.total", "now": (100, 111)},
            "at most 10.0% more bytes moved than without the patch, 100 (nothing of this patch "
            "is accepted here yet)",
            "111",
        ),
        ({"now": (6, None)}, "4 (unpatched 6)", "absent"),
        ({"now": (6, MISSING)}, "4 (unpatched 6)", "unmeasured (no counter)"),
        ({"held": ((2, 6), (2, 4)), "now": ((2, 6), (2,))}, "[2 4] (unpatched [2 6])", "[2]"),
    ],
)
def test_a_verdict_says_what_was_expected_and_what_is(state, expected, actual):
    (verdict,) = judge(**state)
    assert (verdict.expected, verdict.actual) == (expected, actual)


@pytest.mark.parametrize(
    ("state", "values"),
    [
        ({}, ("6", "4", "4")),
        ({"now": (5, (2, 1))}, ("5", "[2 1]", "4")),
        ({"held": (None, None), "fact": "kernels.called", "now": (None, 3)}, (None, "3", None)),
        ({"held": (None, None), "now": (4, 4)}, (None, None, None)),
        ({"now": (6, None)}, ("6", None, "4")),
        ({"now": (6, MISSING)}, ("6", "unmeasured (no counter)", "4")),
    ],
)
def test_a_verdict_carries_the_values_that_it_compares(state, values):
    (verdict,) = judge(**state)
    assert (verdict.before, verdict.after, verdict.recorded) == values
    assert (verdict.item, verdict.fact) == (
        "stack.h200",
        "" if verdict.kind is Kind.NEW else state.get("fact", "loads.max"),
    )


def test_a_case_that_failed_has_no_values():
    (verdict,) = judge(causes=(None, Cause.RAISED))
    assert (verdict.before, verdict.after, verdict.recorded) == (None, None, None)


@pytest.mark.parametrize(
    ("now", "where"), [((6, 5), "code/stack.py"), ((6, 4), None), ((4, 4), None)]
)
def test_the_generated_code_is_shown_where_it_explains_the_figure(now, where):
    assert judge(now=now)[0].where == where


def test_only_a_regression_has_the_next_step_of_its_case():
    steps = [
        (verdict.advice, verdict.commands)
        for now in ((6, 5), (5, 5), (4, 4))
        for verdict in judge(now=now)
    ]
    assert [step == ("read the code", (AGAIN,)) for step in steps] == [True, False, False]


@pytest.mark.parametrize(
    ("fact", "recorded", "budgets", "colour"),
    [
        ("kernels.called", False, {}, Colour.GREY),
        ("kernels.called", False, {"kernels": Budget(low=0.0, high=0.1)}, Colour.RED),
        ("kernels.called", True, {}, Colour.RED),
        ("left.config.trace", False, {}, Colour.RED),  # it stays changed after the block
    ],
)
def test_a_cost_of_a_scope_is_a_note_unless_a_budget_or_golden_holds_it(
    fact, recorded, budgets, colour
):
    facts: Facts = {fact: 3}
    held = facts if recorded else {}
    sides = observation(facts), observation({fact: 5}, patch="mine")
    both = compared(*sides, held, held, budgets=budgets, in_a_scope=True)
    found = [each for check in ("kernels", "options") for each in judge_facts(check, both)]
    assert {each.colour for each in found} == {colour}


def test_equal_facts_without_a_record_are_one_note():
    facts: Facts = {"loads": (1,), "stores": (2,), "bytes.total": 3}
    sides = observation(facts), observation(facts, patch="mine")
    (verdict,) = judge_facts("kernels", compared(*sides, {}, {}))
    assert (verdict.code, verdict.colour, verdict.subject) == ("PG303", Colour.GREY, "stack.h200")
    assert verdict.actual == "3 facts, the same with and without the patch: accept to record"


def test_a_worse_cost_is_red_before_anything_is_accepted_and_identity_is_a_note():
    facts: Facts = {"kernels.called": 3, "stores": (2,), "passes.hits.fold": 0, "bytes.total": 3}
    changed: Facts = facts | {"kernels.called": 4, "passes.hits.fold": 1}
    sides = observation(facts), observation(changed, patch="mine")
    red, first, new = judge_facts("kernels", compared(*sides, {}, {}))
    assert (red.code, red.kind, red.fact, red.where) == (
        "PG301",
        Kind.CHANGED,
        "kernels.called",
        "code/stack.py",
    )
    assert (red.advice, red.commands) == ("read the code", (AGAIN,))
    assert (first.code, first.colour, first.actual) == (
        "PG303",
        Colour.GREY,
        "passes.hits.fold 0 -> 1",
    )
    assert (new.kind, new.actual.partition(",")[0]) == (Kind.NEW, "2 facts")


@pytest.mark.parametrize(
    ("fact", "before", "after", "budgets", "red"),
    [
        ("kernels.called", 3, 4, {}, True),
        ("kernels.called", 3, 4, {"kernels": Budget(low=0, high=0.5)}, False),
        ("kernels.called", 4, 3, {}, False),
        ("bytes.total", 100, 102, {}, False),
        ("bytes.total", 100, 111, {}, True),
        ("bytes.read", 100, 200, {}, False),  # what is read and not written shows in the total
        ("loads", (2, 8), (3, 8), {}, False),
        ("loads", (2, 8), (5, 8), {}, True),
        ("loads", (1, 4), (2, 4), {}, False),  # one more: what memory is asked for shows in bytes
        ("loads", (1, 4), (2, 5), {}, True),
        ("loads", (1, 4), (2, 4), {"loads": Budget(low=0, high=0.1)}, True),
        ("resources.spilled", (0,), (8,), {}, True),
        ("memory.peak", 0, 1, {}, True),
        ("left.torch._inductor.config.debug", None, "False -> True", {}, True),
        ("left.torch._inductor.config.debug", "False -> True", None, {}, False),
        ("wrapper.lines", 10, 90, {}, False),
        ("aten.op.to", 0, 5, {}, False),
    ],
)
def test_a_first_judgement_is_red_for_costs_beyond_their_limit(fact, before, after, budgets, red):
    facts: list[Facts] = [{} if value is None else {fact: value} for value in (before, after)]
    sides = observation(facts[0]), observation(facts[1], patch="mine")
    both = compared(*sides, facts[0], facts[0], accepted=False, budgets=budgets)
    (verdict,) = judge_facts("kernels", both)
    assert (verdict.colour is Colour.RED, verdict.code) == (red, "PG301" if red else "PG303")


def test_each_change_is_red_once_facts_of_the_patch_are_accepted():
    sides = observation({"wrapper.lines": 10}), observation({"wrapper.lines": 9}, patch="mine")
    held: Facts = {"wrapper.lines": 10}
    (verdict,) = judge_facts("kernels", compared(*sides, held, held))
    assert (verdict.code, verdict.colour) == ("PG301", Colour.RED)


def test_a_first_judgement_names_four_facts_with_the_costs_first():
    before: Facts = {f"fact{number}": 0 for number in range(5)} | {"bytes.total": 1000}
    after: Facts = dict.fromkeys(before, 1) | {"bytes.total": 900}
    sides = observation(before), observation(after, patch="mine")
    (verdict,) = judge_facts("kernels", compared(*sides, before, before, accepted=False))
    assert verdict.actual == (
        "bytes.total 1000 -> 900; fact0 0 -> 1; fact1 0 -> 1; fact2 0 -> 1; and 2 more facts"
    )


def test_a_fact_that_golden_does_not_have_yet_is_new_beside_those_that_it_has():
    held: Facts = {"loads": (1,)}
    facts: Facts = held | {"registers": 3}
    told = judge_facts(
        "kernels", compared(observation(facts), observation(facts, patch="mine"), held, held)
    )
    assert [verdict.kind for verdict in told] == [Kind.PASS, Kind.NEW]


@pytest.mark.parametrize("check", ["kernels", "graph"])
def test_a_patch_that_makes_a_workload_compile_is_one_change_where_nothing_is_recorded(check):
    sides = (
        observation(cause=Cause.RAISED),
        observation({"loads": (1,), "stores": (2,)}, patch="mine"),
    )
    unrecorded = Expectation(recorded=False)
    both = replace(compared(*sides, {}, {}), recorded=unrecorded, recorded_unpatched=unrecorded)
    told = [(verdict.kind, verdict.fact, verdict.actual) for verdict in judge_facts(check, both)]
    assert told == ([(Kind.FIRST, "compiles", "compiles")] if check == "kernels" else [])


def test_facts_come_in_the_order_of_their_names():
    facts = {"stores": (1,), "bytes.read": 2, "loads": (1,)}
    sides = observation(facts), observation(facts, patch="mine")
    held: Facts = dict.fromkeys((*facts, "kernels.defined"), 0)
    told = judge_facts("kernels", compared(*sides, held, held | {"aten.ops": 1}))
    names = ["aten.ops", "bytes.read", "kernels.defined", "loads", "stores"]
    assert [verdict.subject for verdict in told] == [f"stack.h200 {name}" for name in names]


def test_a_kernel_kind_that_appears_is_a_change_from_zero():
    held = {"loads": (1,)}
    sides = observation(held), observation(held | {"kernels.kind.cpp": 2}, patch="mine")
    told = judge_facts("kernels", compared(*sides, held, held))
    assert [(v.kind, v.expected, v.actual) for v in told] == [
        (Kind.REGRESSED, "0", "2"),
        (Kind.PASS, "[1]", "[1]"),
    ]


@pytest.mark.parametrize(
    ("fact", "check"),
    [
        ("dynamo.graphs", "graph"),
        ("fx.op.add", "graph"),
        ("aten.ops", "kernels"),
        ("fxx", "kernels"),
    ],
)
def test_what_dynamo_and_fx_tell_belongs_to_the_graph(fact, check):
    assert check_of(fact) == check


def test_what_was_not_asked_for_is_not_missed():
    """Resources are recorded by nightly runs; a pre-merge run does not take them."""
    held = {"held": (None, None), "fact": "resources.registers"}
    assert judge(held=(64, 64), now=(None, None), fact="resources.registers") == []
    (verdict,) = judge(held=(64, 64), now=(64, 70), fact="resources.registers")
    assert verdict.code == "PG301"
    (verdict,) = judge(now=(64, 64), **held)
    assert verdict.code == "PG303"


@pytest.mark.parametrize("check", ["kernels", "graph"])
def test_a_patch_that_runs_a_kernel_needs_a_device_and_is_not_blamed(check):
    missing: Facts = {"compiles": Unmeasured(reason="needs a real device: a kernel is run on it")}
    sides = observation({"loads": (1,)}), observation(missing, patch="mine")
    told = list(judge_facts(check, compared(*sides, {"loads": (1,)}, {"loads": (1,)})))
    assert [(verdict.code, verdict.colour, verdict.is_judged) for verdict in told] == (
        [("PG906", Colour.GREY, True)] if check == "kernels" else []
    )


def test_whose_record_it_is_is_reported_where_it_is_another_torchs():
    (drifted,) = judge(held=(6, 6), now=(7, 7), release="2.15.0")
    assert (drifted.kind, drifted.torch) == (Kind.DRIFTED, "2.11.0")
    assert drifted.expected == "6 (unpatched recorded 6, now 7) (by the record of 2.15.0)"
    assert "by the record" not in judge(held=(6, 6), now=(7, 7), release="2.11.0")[0].expected
