"""Two patches in one process -> PG811 to PG814.

Decides from what is left of each in either order, and from one workload's
facts. Refuses to run anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Kind, Patch, Verdict
from patchgate.model.serialization import failure_of

Orders = tuple[Mapping[str, Any], Mapping[str, Any]]


def _verdict(code: str, kind: Kind, torch: str, patch: Patch, subject: str, expected: str, actual: str) -> Verdict:
    return verdict_of("together", code, kind, torch, subject, expected, actual, f"{shown(patch.path)}:1")


def judge_places(torch: str, patch: Patch, other: Patch, answers: Orders) -> Iterator[Verdict]:
    """PG811 for what one patch takes away from the other; `answers` has this patch last, then first."""
    faults = list(_failures(torch, patch, other, answers))
    if not faults:
        for (last, first), answer in zip(((patch, other), (other, patch)), answers, strict=True):
            for name in answer["undone"]:
                told = f"{first.id}'s replacement is gone once {last.id} is applied"
                faults.append(_verdict("PG811", Kind.REGRESSED, torch, patch, f"both {name}", "both in place", told))
    yield from faults or [_fine(torch, patch, f"places beside {other.id}", "both in place")]


def judge_orders(torch: str, patch: Patch, other: Patch, case: str, answers: Orders) -> Iterator[Verdict]:
    """PG812 where a workload's facts depend on the order, PG813 where it fails."""
    faults = list(_failures(torch, patch, other, answers))
    if not faults:
        last, first = (answer["facts"] for answer in answers)
        differing = sorted(name for name in last.keys() | first.keys() if last.get(name) != first.get(name))
        if differing:
            told = "; ".join(f"{name} {last.get(name)} or {first.get(name)}" for name in differing[:4])
            expected = "the same in either order"
            faults.append(_verdict("PG812", Kind.REGRESSED, torch, patch, f"{case} beside {other.id}", expected, told))
    yield from faults or [_fine(torch, patch, f"{case} beside {other.id}", "the same in either order")]


def _failures(torch: str, patch: Patch, other: Patch, answers: Orders) -> Iterator[Verdict]:
    for order, answer in zip((f"after {other.id}", f"before {other.id}"), answers, strict=True):
        failure = failure_of(dict(answer))
        if failure:
            kind = Kind.INFRA if failure.cause is Cause.MACHINE else Kind.REGRESSED
            yield _verdict("PG813", kind, torch, patch, f"applied {order}", "works as alone", failure.signature)


def _fine(torch: str, patch: Patch, subject: str, expected: str) -> Verdict:
    return _verdict("PG814", Kind.PASS, torch, patch, subject, expected, "as expected")
