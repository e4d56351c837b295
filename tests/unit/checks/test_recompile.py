"""Graphs compiled in several calls: which of them are too many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from patchgate.checks.recompile import judge_recompiles
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Verdict

CASE = Case(torch="2.11.0", device="cpu", workload="w", patch="mine")
PATCH = Patch(id="mine", path="/p/patch.py", source="", claims=Claims(title="Mine"))
STEPS = ("first call", "second call", "other instances", "another size", "another state")
FAILURE = {"failure": {"cause": "raised", "stage": "compile", "signature": "boom", "where": None}}
MACHINE = {"failure": FAILURE["failure"] | {"cause": "machine"}}


def counts(
    *graphs: int, symbolic: tuple[int, ...] = (0, 0, 0, 0), state: int = 0
) -> dict[str, dict[str, int]]:
    """`state`: graphs that are compiled for another state, which are none where nothing is
    compiled.
    """
    each = zip(STEPS, (*graphs, state), (*symbolic, 0), strict=True)
    return {step: {"graphs": n, "symbolic": s} for step, n, s in each}


PLAIN = {"counts": {"uncompiled": counts(0, 0, 0, 0), "compiled": counts(1, 0, 0, 1, state=1)}}


def judged(patched: dict[str, Any], unpatched: dict[str, Any] = PLAIN) -> list[Verdict]:
    return list(judge_recompiles(CASE, PATCH, unpatched, patched))


def told(way: str, *graphs: int, state: int = 1, **symbolic: tuple[int, ...]) -> dict[str, Any]:
    return {"counts": PLAIN["counts"] | {way: counts(*graphs, state=state, **symbolic)}}


def codes(verdicts: Iterable[Verdict]) -> list[str]:
    return [verdict.code for verdict in verdicts]


def test_as_often_as_unpatched_is_green():
    (verdict,) = judged(PLAIN)
    assert (verdict.code, verdict.colour, verdict.actual) == (
        "PG410",
        Colour.GREEN,
        "3 graphs in 5 steps",
    )


@pytest.mark.parametrize("graphs", [(1, 1, 0, 1), (1, 0, 3, 1), (1, 0, 0, 2)])
def test_more_graphs_in_a_later_step_are_red(graphs):
    (verdict,) = judged(told("compiled", *graphs))
    assert (verdict.code, verdict.colour, verdict.where) == ("PG411", Colour.RED, "/p/patch.py:1")


def test_the_step_is_named():
    (verdict,) = judged(told("compiled", 1, 0, 3, 1))
    assert verdict.subject == "w.cpu compiled, other instances"
    assert (verdict.expected, verdict.actual) == ("at most 0 graphs compiled", "3 compiled")


def test_a_graph_break_is_another_check_s_and_comes_again_with_another_size():
    assert codes(judged(told("compiled", 2, 0, 0, 2))) == ["PG410"]
    assert codes(judged(told("compiled", 2, 0, 0, 3))) == ["PG411"]


def test_what_a_patch_compiles_by_itself_may_be_compiled_for_each_size():
    assert codes(judged(told("uncompiled", 1, 0, 0, 1))) == ["PG410"]
    assert codes(judged(told("uncompiled", 1, 0, 0, 1, symbolic=(0, 0, 0, 1)))) == ["PG412"]


def test_code_of_another_state_is_red():
    (verdict,) = judged(told("compiled", 1, 0, 0, 1, state=0))
    assert (verdict.code, verdict.colour) == ("PG414", Colour.RED)
    assert (verdict.expected, verdict.actual) == ("1 graphs compiled, as unpatched", "0 compiled")
    assert codes(judged(told("compiled", 1, 0, 0, 1, state=2))) == ["PG411"]


def test_symbolic_sizes_that_unpatched_has_too_are_none_of_the_patch():
    dynamic = told("compiled", 1, 0, 0, 0, symbolic=(1, 0, 0, 0))
    assert codes(judged(dynamic, dynamic)) == ["PG410"]
    assert codes(judged(dynamic)) == ["PG412"]


def test_a_failure_is_the_patchs_fault_only_when_it_alone_fails():
    (verdict,) = judged(FAILURE)
    assert (verdict.code, verdict.colour, verdict.actual) == (
        "PG413",
        Colour.RED,
        "patched: boom, during `compile`",
    )
    assert codes(judged(PLAIN, FAILURE)) == codes(judged(FAILURE, FAILURE)) == ["PG419"]
    assert [judged(PLAIN, failed)[0].kind for failed in (FAILURE, MACHINE)] == [
        Kind.ASSUMED,
        Kind.INFRA,
    ]
