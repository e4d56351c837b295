"""Touches of names that a release does not have, shared by the rules that word them.

Decides which missing touches count. Refuses to know codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Severity, View
from patchgate.lint.interpret.references import Definition, Presence, Reachability, Reference


def missing_references(views: Sequence[View], *kinds: str) -> Iterator[tuple[View, Reference]]:
    """Each (view, reference) of a missing name that the patch has not put there itself by then."""
    for view in views:
        for at, reference in enumerate(view.usage.references):
            if (
                reference.kind not in kinds
                or reference.presence is not Presence.MISSING
                or reference.reachability is Reachability.GUARDED
            ):
                continue
            if not any(_made(view, reference, at, each) for each in view.usage.definitions):
                yield view, reference


def same_name(view: View, reference: Reference, owner: str, name: str) -> bool:
    """Whether a reference can mean `owner.name`: a class of the family counts as the owner, another module does not."""
    if reference.name != name:
        return False
    return reference.owner == owner or not {reference.owner, owner} & view.release.modules()


def _made(view: View, reference: Reference, at: int, made: Definition) -> bool:
    """Whether the patch may define the name before reference number `at`.

    In what order functions run is not known; and a branch of one may run when it is called again.
    """
    again = reference.path[0] > 0 and reference.path != made.path[: len(reference.path)]
    in_time = made.path[0] != reference.path[0] or made.after <= at or again
    return in_time and same_name(view, reference, made.owner, made.name)


def severity_of(reference: Reference) -> Severity:
    """Outside the gate a missing name is only worth knowing before someone widens the gate."""
    return Severity.RED if reference.reachable else Severity.NOTE


def outside(reference: Reference) -> str:
    return "" if reference.reachable else " (outside the gate)"
