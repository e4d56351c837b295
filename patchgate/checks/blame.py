"""Whose fault it is that a side of a comparison did not run: one answer for every check."""

from __future__ import annotations

from enum import Enum

from patchgate.checks import registry
from patchgate.model.records import Case, Cause, Code, Failure, Kind, Verdict

# Without the patch these say that the machine is too small or too busy; with it they are the patch's own doing.
_EXHAUSTED = {Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.CRASHED}


class Fault(Enum):
    """Who is to blame; the value is the kind of verdict that it comes to."""

    MACHINE = Kind.INFRA
    TORCH = Kind.DRIFTED  #: it fails without the patch too
    PATCH = Kind.REGRESSED

    @property
    def kind(self) -> Kind:
        return self.value


def fault_of(unpatched: Failure | None, patched: Failure | None) -> Fault | None:
    """Whose fault a failure is, from what became of both sides; None where both ran."""
    failures = [failure for failure in (unpatched, patched) if failure]
    if not failures:
        return None
    if any(failure.cause is Cause.MACHINE for failure in failures):
        return Fault.MACHINE
    if unpatched:
        return Fault.MACHINE if unpatched.cause in _EXHAUSTED else Fault.TORCH
    return Fault.PATCH


def failure_text(unpatched: Failure | None, patched: Failure | None) -> str:
    """What happened to the side that failed, the unpatched one first."""
    side, failure = ("unpatched", unpatched) if unpatched else ("patched", patched)
    assert failure is not None
    return f"{side}: {failure.text}"


def judge_failed(
    family: str,
    codes: tuple[str, str],
    case: Case,
    sides: tuple[Failure | None, Failure | None],
    expected: str,
    *,
    actual: str = "",
    fact: str = "",
    place: str | None = None,
    item: str = "",
) -> Verdict | None:
    """The verdict where one of the sides (unpatched, patched) failed; None where both ran.

    `codes` are that of a failure of the patch's, and that of any other; `place` is shown where the failure has none.
    """
    fault, failure = fault_of(*sides), sides[0] or sides[1]
    if fault is None or failure is None:
        return None
    code, where = codes[fault is not Fault.PATCH], failure.where or place
    text = actual or failure_text(*sides)
    return registry.verdict(family, code, fault.kind, case, fact, expected, text, where, item=item)


def code_of_others(code: str) -> Code:
    """The code of a comparison whose unpatched side failed, or whose machine did."""
    return Code(
        code=code,
        title="torch or the machine failed, not the patch",
        what="The unpatched side of this comparison failed, so torch itself has changed; or the machine failed.",
        why="Without an unpatched side the patch cannot be judged. A failure of torch is red, because it needs"
        " attention; a failure of the machine is not.",
        fix="Run again. If it persists, run the workload without the patch, and check disk, memory and limits.",
    )
