"""Decide for every check whose fault it is that a side of a comparison did not run."""

from __future__ import annotations

from enum import Enum

from patchgate.model.policy import Kind
from patchgate.model.records import Cause, Failure

# Without the patch, these causes mean that the machine is too small or too busy. With the patch,
# the patch is to blame.
_EXHAUSTED = {Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.CRASHED}
# In this stage, after the patch has run, the probe compares torch with its earlier state.
_OWN_STAGE = "compare"


class Fault(Enum):
    """The party to blame. The value is the kind of verdict that follows."""

    MACHINE = Kind.INFRA
    TORCH = Kind.ASSUMED  #: torch fails without the patch, so the patch cannot be judged
    PATCH = Kind.REGRESSED

    @property
    def kind(self) -> Kind:
        return self.value


def fault_of(unpatched: Failure | None, patched: Failure | None) -> Fault | None:
    """Return the party to blame for the failures of both sides; None if both sides ran."""
    if any(failure and _is_never_the_patch(failure) for failure in (unpatched, patched)):
        return Fault.MACHINE
    if unpatched:
        return Fault.MACHINE if unpatched.cause in _EXHAUSTED else Fault.TORCH
    return Fault.PATCH if patched else None


def _is_never_the_patch(failure: Failure) -> bool:
    is_ours = failure.cause is Cause.HUNG and failure.stage == _OWN_STAGE
    return is_ours or failure.cause in (Cause.MACHINE, Cause.MISSING)


def held_against(failure: Failure, code: str, place: str) -> tuple[str, Kind, str]:
    """The code, kind and place of a failure with the patch; the code is PG905 if the machine
    failed.
    """
    fault = fault_of(None, failure)
    assert fault is not None
    code = "PG905" if fault is Fault.MACHINE else code
    return code, fault.kind, failure.where or place


def failure_text(unpatched: Failure | None, patched: Failure | None) -> str:
    """The failure of the unpatched side if it failed, else of the patched side."""
    side, failure = ("unpatched", unpatched) if unpatched else ("patched", patched)
    assert failure is not None
    return f"{side}: {failure.text}"
