"""Test the blame for every combination of outcomes of both sides, written down as a table."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from patchgate.checks.cache import PATCHED, UNPATCHED, judge_failure
from patchgate.checks.compile_cost import judge_calls
from patchgate.checks.framework.blame import Fault, failure_text, fault_of
from patchgate.checks.framework.compare import Recorded, Side, compare
from patchgate.checks.hooks import judge_hooks
from patchgate.checks.parity import judge_side
from patchgate.checks.recompile import judge_recompiles
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Failure, Verdict

CASE = Case(torch="2.11.0", device="cpu", workload="stack", patch="mine")
PATCH = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
STATES: tuple[Cause | None, ...] = (None, *Cause)
MACHINE, TORCH, OURS = Fault.MACHINE, Fault.TORCH, Fault.PATCH

# Outcome of the unpatched side -> whose fault it is, by the outcome of the patched side in the
# order of `PATCHED`: it ran, raised, hung, exited, crashed, ran out of memory, tampered with the
# judge, lacked a module, or the machine failed.
TABLE: dict[Cause | None, tuple[Fault | None, ...]] = {
    None: (None, OURS, OURS, OURS, OURS, OURS, OURS, MACHINE, MACHINE),
    Cause.RAISED: (TORCH, TORCH, TORCH, TORCH, TORCH, TORCH, TORCH, MACHINE, MACHINE),
    Cause.EXITED: (TORCH, TORCH, TORCH, TORCH, TORCH, TORCH, TORCH, MACHINE, MACHINE),
    Cause.TAMPERED: (TORCH, TORCH, TORCH, TORCH, TORCH, TORCH, TORCH, MACHINE, MACHINE),
    Cause.HUNG: (MACHINE,) * 9,
    Cause.CRASHED: (MACHINE,) * 9,
    Cause.OUT_OF_MEMORY: (MACHINE,) * 9,
    Cause.MISSING: (MACHINE,) * 9,
    Cause.MACHINE: (MACHINE,) * 9,
}
ORDER = (
    *(
        None,
        Cause.RAISED,
        Cause.HUNG,
        Cause.EXITED,
        Cause.CRASHED,
        Cause.OUT_OF_MEMORY,
        Cause.TAMPERED,
    ),
    *(Cause.MISSING, Cause.MACHINE),
)


def failure(cause: Cause | None) -> Failure | None:
    return Failure(cause=cause, stage="compile", signature="boom") if cause else None


def answer(cause: Cause | None, **otherwise: Any) -> dict[str, Any]:
    """Make the answer of a probe that failed for a cause, or that did not."""
    return (
        {"failure": {"cause": cause.value, "stage": "compile", "signature": "boom"}}
        if cause
        else otherwise
    )


def test_the_table_has_every_combination():
    assert set(TABLE) == set(ORDER) == set(STATES)
    assert {len(faults) for faults in TABLE.values()} == {len(ORDER)} == {len(STATES)}


@pytest.mark.parametrize(("unpatched", "patched"), list(product(STATES, STATES)))
def test_every_combination_has_its_fault(unpatched, patched):
    assert fault_of(failure(unpatched), failure(patched)) is TABLE[unpatched][ORDER.index(patched)]


@pytest.mark.parametrize(
    ("cause", "stage", "fault"),
    [
        (Cause.HUNG, "compare", MACHINE),
        (Cause.HUNG, "patch", OURS),
        (Cause.RAISED, "compare", OURS),
    ],
)
def test_a_hang_in_our_own_stage_is_not_the_patch(cause, stage, fault):
    assert fault_of(None, Failure(cause=cause, stage=stage, signature="boom")) is fault


@pytest.mark.parametrize(
    ("fault", "kind"), [(MACHINE, Kind.INFRA), (TORCH, Kind.ASSUMED), (OURS, Kind.REGRESSED)]
)
def test_a_fault_comes_to_one_kind_of_verdict(fault, kind):
    assert fault.kind is kind


@pytest.mark.parametrize(
    ("unpatched", "patched", "text"),
    [
        (Cause.RAISED, None, "unpatched: boom, during `compile`"),
        (Cause.RAISED, Cause.HUNG, "unpatched: boom, during `compile`"),
        (None, Cause.OUT_OF_MEMORY, "patched: out-of-memory: boom, during `compile`"),
    ],
)
def test_the_side_that_failed_is_named_the_unpatched_one_first(unpatched, patched, text):
    assert failure_text(failure(unpatched), failure(patched)) == text


def facts(unpatched: Cause | None, patched: Cause | None) -> Kind:
    return compare(Recorded(), Side(failure=failure(unpatched)), Side(failure=failure(patched)))


def parity(unpatched: Cause | None, patched: Cause | None) -> Kind:
    return judge_side(CASE, failure(unpatched), failure(patched)).kind


def cache(unpatched: Cause | None, patched: Cause | None) -> Kind:
    return kind_of(judge_failure(CASE, {UNPATCHED: answer(unpatched), PATCHED: answer(patched)}))


def compile_cost(unpatched: Cause | None, patched: Cause | None) -> Kind:
    return judge_calls(
        CASE, PATCH, answer(unpatched, calls={"a": 1}), answer(patched, calls={"a": 1})
    ).kind


def recompile(unpatched: Cause | None, patched: Cause | None) -> Kind:
    return kind_of(*judge_recompiles(CASE, PATCH, answer(unpatched), answer(patched)))


def hooks(unpatched: Cause | None, patched: Cause | None) -> Kind:
    return kind_of(*judge_hooks(CASE, PATCH, answer(unpatched), answer(patched)))


def kind_of(verdict: Verdict | None) -> Kind:
    assert verdict is not None
    return verdict.kind


# Every check that asks both sides, beside the one of scopes, which holds no side against torch.
BOTH_SIDES = (facts, parity, cache, compile_cost, recompile, hooks)
# Facts are judged where the patched side has them, although the unpatched one failed:
# test_compare.py has that table.
UNPATCHED_FAILS = [
    (kind_in, unpatched, patched)
    for kind_in, unpatched, patched in product(BOTH_SIDES, Cause, STATES)
    if kind_in is not facts or patched
]


@pytest.mark.parametrize(("kind_in", "unpatched", "patched"), UNPATCHED_FAILS)
def test_where_the_unpatched_side_fails_every_check_blames_the_same(kind_in, unpatched, patched):
    fault = fault_of(failure(unpatched), failure(patched))
    assert fault is not None
    assert kind_in(unpatched, patched) is fault.kind


@pytest.mark.parametrize("kind_in", [check for check in BOTH_SIDES if check is not compile_cost])
@pytest.mark.parametrize("cause", Cause)
def test_where_the_patched_side_alone_fails_every_check_blames_the_same(kind_in, cause):
    assert kind_in(None, cause) is (
        Kind.INFRA if cause in (Cause.MACHINE, Cause.MISSING) else Kind.REGRESSED
    )
