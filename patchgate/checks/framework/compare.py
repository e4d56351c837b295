"""The comparison of one fact: (recorded, unpatched now, patched now) -> kind.

The function is pure and total: the first rule that fits decides. Its test has the whole table.
"""

from __future__ import annotations

from patchgate.checks.framework.blame import Fault, fault_of
from patchgate.model.policy import Kind
from patchgate.model.records import FactValue, Failure, Unmeasured, record


@record
class Side:
    """One side of a comparison as it is now: a value, or the failure that prevented a value."""

    value: FactValue | None = None
    failure: Failure | None = None


@record
class Recorded:
    """The record in the golden file: a value for each side, or the signature of the patched side's
    known failure.
    """

    unpatched: FactValue | None = None
    patched: FactValue | None = None
    known_failure: str | None = None
    #: True if facts of the patch were accepted before; else only facts of torch are recorded
    accepted: bool = True

    @property
    def is_empty(self) -> bool:
        return self.unpatched is None and self.patched is None and self.known_failure is None


def compare(recorded: Recorded, unpatched: Side, patched: Side, *, worse: bool = False) -> Kind:
    """Return the kind of verdict on one fact of one case. For an unpatched case both sides are the
    same. `worse` is true if the fact is a cost that grows beyond its limit.
    """
    fault = fault_of(unpatched.failure, patched.failure)
    if fault is Fault.MACHINE:
        return Kind.INFRA
    if fault and patched.failure:
        known = recorded.known_failure == patched.failure.signature
        if fault is Fault.TORCH and not (known or recorded.is_empty):
            return Kind.DRIFTED  # by the record, the case once ran
        return Kind.KNOWN if known else fault.kind
    if recorded.known_failure is not None:
        return Kind.STALE
    if isinstance(patched.value, Unmeasured) or isinstance(unpatched.value, Unmeasured):
        return Kind.UNMEASURED  # before NEW: there would be nothing to accept
    same = unpatched.failure is None and patched.value == unpatched.value
    if recorded.is_empty and same:
        return Kind.NEW
    if recorded.is_empty or not (recorded.accepted or same):
        return Kind.CHANGED if worse else Kind.FIRST
    differs = recorded.patched != recorded.unpatched
    if patched.value == recorded.patched:
        if not (differs or same or unpatched.failure):
            return Kind.DRIFTED  # the patch makes a difference, but the record has none
        return Kind.ABSORBED if differs and same else Kind.PASS
    if unpatched.value != recorded.unpatched:
        return Kind.DRIFTED
    return Kind.INERT if same else Kind.REGRESSED
