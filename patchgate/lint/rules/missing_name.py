"""PG111 and PG112: a name of torch does not exist, or has moved. Quiet for `__getattr__` and guards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.interpret.references import Presence, Reference
from patchgate.lint.rules.missing import missing_references, outside, severity_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    homes = _homes(views)
    for view, reference in missing_references(views, "name", "attribute"):
        home = _new_home(view, reference, homes.get((reference.owner, reference.name), set()))
        what = f"`{reference.name}` moved to `{home}`" if home else f"`{reference.name}` missing on `{reference.owner}`"
        yield Remark(
            code="PG112" if home else "PG111",
            version=view.version,
            span=reference.span,
            message=f"{what}{outside(reference)}",
            severity=severity_of(reference),
            fix=f"import it from `{home.rpartition('.')[0]}` there" if home else "",
        )


def _homes(views: Sequence[View]) -> dict[tuple[str, str], set[str]]:
    """Where releases that answer a name define it: the first places to look in those that do not."""
    found: dict[tuple[str, str], set[str]] = {}
    for view in views:
        for reference in view.usage.references:
            if reference.kind == "name" and reference.presence is Presence.PRESENT:
                answer = view.release.resolve(reference.dotted)
                if answer is not None:
                    found.setdefault((reference.owner, reference.name), set()).add(answer.origin)
    return found


def _new_home(view: View, reference: Reference, candidates: set[str]) -> str | None:
    """The module-level name `reference.name` elsewhere in this release, when there is exactly one such place."""
    if reference.kind != "name":
        return None
    for dotted in sorted(candidates):
        answer = view.release.resolve(dotted)
        if answer is not None and dotted != reference.dotted:
            return dotted
    package = ".".join(reference.owner.split(".")[:2])
    places = []
    for name in view.release.modules():
        if name.startswith(package):
            module = view.release.module(name)
            if module is not None and (reference.name in module.functions or reference.name in module.classes):
                places.append(f"{name}.{reference.name}")
    return places[0] if len(places) == 1 else None
