"""The comparison: (recorded, unpatched now, patched now) -> kind. Pure and total.

Decides the kind, first row of DESIGN's table that fits. Refuses to know what
a fact is about; its test is the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgate.model.records import Cause, FactValue, Failure, Kind, Unmeasured


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison as it is now: a value, or the failure that kept it from having one."""

    value: FactValue | None = None
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What golden holds: a value for each side, or the signature of the patched side's known failure."""

    unpatched: FactValue | None = None
    patched: FactValue | None = None
    known_failure: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.unpatched is None and self.patched is None and self.known_failure is None


def _is_infra(unpatched: Failure | None, patched: Failure | None) -> bool:
    causes = {failure.cause for failure in (unpatched, patched) if failure}
    ours = {Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.CRASHED}
    # A hang or blow-up of the patched side alone is the patch's own doing; of ours, the machine's.
    return Cause.MACHINE in causes or (unpatched is not None and unpatched.cause in ours)


def compare(recorded: Recorded, unpatched: Side, patched: Side) -> Kind:
    """The kind of one fact of one case. For an unpatched case both sides are the same."""
    if _is_infra(unpatched.failure, patched.failure):
        return Kind.INFRA
    if patched.failure:
        if recorded.known_failure is not None and recorded.known_failure == patched.failure.signature:
            return Kind.KNOWN
        return Kind.DRIFTED if unpatched.failure else Kind.REGRESSED
    if recorded.known_failure is not None:
        return Kind.STALE
    if isinstance(patched.value, Unmeasured) or isinstance(unpatched.value, Unmeasured):
        return Kind.UNMEASURED  # before NEW: there would be nothing to accept
    if recorded.is_empty:
        return Kind.NEW
    differs = recorded.patched != recorded.unpatched
    same = unpatched.failure is None and patched.value == unpatched.value
    if patched.value == recorded.patched:
        return Kind.ABSORBED if differs and same else Kind.PASS
    if unpatched.value != recorded.unpatched:
        return Kind.DRIFTED
    return Kind.INERT if same else Kind.REGRESSED
