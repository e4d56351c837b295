"""PG126: the patch assigns to a name that torch does not have.

Red if another release has the name. If no release has it, the patch adds it: a note that suggests a
name with a similar spelling, or red if the assigned function itself has that similar name. Quiet
for values that are no functions, and for names that the patch itself reads (PG111).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Presence, Reachability
from patchgate.lint.rules.missing_name import family, in_some_release, near_name
from patchgate.model.records import read_codes

(TARGET_MISSING,) = read_codes("""
PG126 target missing
    The patch assigns to a name that these releases do not have.
    Why: It creates a new attribute that nothing in torch ever calls.
    Fix: Correct the name, or narrow the version check to the releases that have it.
""")
_LIBRARY = sys.stdlib_module_names


def check(views: Sequence[View]) -> Iterator[Finding]:
    for view in views:
        reads = {(each.name, family(view, each.owner)) for each in view.usage.references}
        for rebinding in view.usage.rebindings:
            if (
                rebinding.presence is not Presence.MISSING
                or rebinding.reachability is Reachability.GUARDED
            ):
                continue
            owner = rebinding.target.rpartition(".")[0]
            if (rebinding.name, family(view, owner)) in reads:
                continue
            if rebinding.target in view.usage.tested:
                continue  # the patch tests whether the name exists, and adds it
            if in_some_release(view, owner, rebinding.name):
                matters = rebinding.reachable and not _only_imported(view, rebinding.target)
                severity, fix = Severity.RED if matters else Severity.NOTE, ""
                message = f"target `{rebinding.target}` missing{rebinding.why_not}"
            else:
                near = near_name(view.release, owner, rebinding.name)
                if rebinding.function is None and not near:
                    continue  # the patch marks the object for its own use
                is_meant = near and rebinding.called == near and rebinding.reachable
                severity = Severity.RED if is_meant else Severity.NOTE
                fix = f"did you mean `{near}`?" if near else ""
                message = f"adds a new name: no indexed release has `{rebinding.target}`"
            yield view.finding(
                TARGET_MISSING, rebinding.span, message, severity=severity, fix=fix, of=rebinding
            )


def _only_imported(view: View, target: str) -> bool:
    """True if all releases that have the name import it from the standard library or from
    torch.types.
    """
    found = [
        each for release in view.release.others() if (each := release.resolve(target)) is not None
    ]
    return bool(found) and all(
        each.origin.startswith("torch.types.") or each.origin.split(".")[0] in _LIBRARY
        for each in found
    )
