"""A script of sizes: each of PG421 to PG423 once, one verdict for each way of compiling, and quiet
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from patchgate.checks.framework.golden_verdicts import Compared
from patchgate.checks.shapes import judge_shapes
from patchgate.model.policy import Colour
from patchgate.model.records import (
    Case,
    Cause,
    Expectation,
    Facts,
    FactValue,
    Failure,
    Observation,
    Verdict,
)

FACTS = {
    "shapes.compiled.automatic": (1, 0, 1, 0),
    "shapes.compiled.static": (1, 0, 1, 1),
    "shapes.breaks.automatic": 0,
    "shapes.eager.automatic": 0,
    "shapes.limit.automatic": 0,
    "shapes.guard.automatic.TENSOR_MATCH": 4,
    "shapes.reason.automatic.1": "size mismatch",
}
HELD = Expectation(facts=FACTS)


def observation(
    facts: Facts, patch: str | None = None, failure: Failure | None = None
) -> Observation:
    case = Case(torch="2.11.0", device="cpu", workload="stack_shapes", patch=patch)
    return Observation(case=case, facts=facts, failure=failure)


def compared(
    patched: Observation,
    unpatched: Facts = FACTS,
    recorded: Expectation = HELD,
    recorded_unpatched: Expectation = HELD,
) -> Compared:
    return Compared(
        unpatched=observation(unpatched),
        patched=patched,
        recorded=recorded,
        recorded_unpatched=recorded_unpatched,
        release="2.11.0",
    )


def judge(
    *,
    recorded: Facts | None = None,
    unpatched: Facts | None = None,
    failure: Failure | None = None,
    **changed: FactValue,
) -> list[Verdict]:
    """Verdicts where the patch changes these facts (`compiled=(1, 1)` of automatic shapes)."""
    named = {f"shapes.{name}.automatic": value for name, value in changed.items()}
    patched = {} if failure else FACTS | named
    held = Expectation(facts=FACTS | (recorded or {}))
    return list(
        judge_shapes(
            compared(
                observation(patched, "mine", failure), FACTS | (unpatched or {}), recorded=held
            )
        )
    )


def red(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.code != "PG400"]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"compiled": (1, 0, 1, 1)}, "PG421"),
        ({"breaks": 2, "compiled": (2, 0, 2, 0)}, "PG422"),
        ({"eager": 1, "compiled": (1, 0, 1, 1), "breaks": 1}, "PG423"),
        ({"limit": 1}, "PG423"),
    ],
)
def test_what_got_worse_names_the_verdict(changed, code):
    (verdict,) = red(judge(**changed))
    assert (verdict.code, verdict.subject, verdict.check) == (
        code,
        "stack_shapes.cpu automatic",
        "shapes",
    )


def test_what_follows_from_it_is_reported_in_it():
    facts = {
        "shapes.reason.automatic.2": "Gt(s0, 12) (mlp.py:3)",
        "shapes.guard.automatic.SYMBOLIC": 3,
    }
    patched = observation(FACTS | facts | {"shapes.compiled.automatic": (1, 0, 1, 1)}, "mine")
    (verdict,) = red(judge_shapes(compared(patched)))
    assert verdict.expected == "compiled [1 0 1 0], breaks 0, eager 0, limit 0"
    assert verdict.actual == "compiled [1 0 1 1], breaks 0, eager 0, limit 0; Gt(s0, 12) (mlp.py:3)"


def test_nothing_changed_is_green_fact_by_fact():
    assert [verdict.code for verdict in judge()] == ["PG400"] * len(FACTS)


def test_more_compiles_that_are_recorded_pass():
    more = {"compiled": (1, 0, 1, 1)}
    assert red(judge(recorded={"shapes.compiled.automatic": (1, 0, 1, 1)}, **more)) == []


@pytest.mark.parametrize(("compiles", "code"), [(1, []), (3, ["PG421"])])
def test_a_compile_instead_of_a_call_in_eager_mode_is_a_note(compiles, code):
    unpatched = FACTS | {"shapes.eager.automatic": 1, "shapes.limit.automatic": 1}
    patched = observation(FACTS | {"shapes.compiled.automatic": (1, 0, 1, compiles)}, "mine")
    held = Expectation(facts=unpatched)
    first = replace(compared(patched, unpatched, held, held), accepted=False)
    found = [verdict for verdict in judge_shapes(first) if verdict.colour is Colour.RED]
    assert [verdict.code for verdict in found] == code


def test_fewer_compiles_are_a_changed_fact():
    (verdict,) = red(judge(compiled=(1, 0, 0, 0)))
    assert (verdict.code, verdict.subject) == (
        "PG401",
        "stack_shapes.cpu shapes.compiled.automatic",
    )


def test_what_torch_changed_by_itself_is_not_held_against_the_patch():
    (verdict,) = red(
        judge(unpatched={"shapes.compiled.automatic": (1, 1, 1, 1)}, compiled=(1, 1, 1, 1))
    )
    assert verdict.code == "PG402"


def test_a_patched_side_that_fails_has_one_verdict():
    failure = Failure(cause=Cause.RAISED, stage="shapes", signature="TypeError: boom")
    (verdict,) = judge(failure=failure)
    assert (verdict.code, verdict.actual) == ("PG401", "patched: TypeError: boom, during `shapes`")
    (verdict,) = judge(failure=Failure(cause=Cause.MACHINE, stage="server", signature="gone"))
    assert verdict.code == "PG409"


def test_a_failure_that_is_known_is_not_news():
    known = Expectation(known_failure="TypeError: boom")
    failed = observation(
        {}, "mine", Failure(cause=Cause.RAISED, stage="shapes", signature="TypeError: boom")
    )
    told = judge_shapes(compared(failed, recorded=known, recorded_unpatched=known))
    assert [verdict.code for verdict in told] == ["PG407"]
