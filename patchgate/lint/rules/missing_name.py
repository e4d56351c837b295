"""PG111 and PG112: a name of torch does not exist, or has moved. Quiet for `__getattr__` and guards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, View
from patchgate.lint.interpret.references import Presence, Touch
from patchgate.lint.rules.missing import missing_touches, outside, severity_of


def check(views: Sequence[View]) -> Iterator[Remark]:
    homes = _homes(views)
    for view, touch in missing_touches(views, "name", "attribute"):
        home = _new_home(view, touch, homes.get((touch.owner, touch.name), set()))
        what = f"`{touch.name}` moved to `{home}`" if home else f"`{touch.name}` missing on `{touch.owner}`"
        yield Remark(
            code="PG112" if home else "PG111",
            version=view.version,
            spot=touch.spot,
            message=f"{what}{outside(touch)}",
            severity=severity_of(touch),
            fix=f"import it from `{home.rpartition('.')[0]}` there" if home else "",
        )


def _homes(views: Sequence[View]) -> dict[tuple[str, str], set[str]]:
    """Where releases that answer a name define it: the first places to look in those that do not."""
    found: dict[tuple[str, str], set[str]] = {}
    for view in views:
        for touch in view.usage.touches:
            if touch.kind == "name" and touch.presence is Presence.PRESENT:
                answer = view.release.resolve(touch.dotted)
                if answer is not None:
                    found.setdefault((touch.owner, touch.name), set()).add(answer.origin)
    return found


def _new_home(view: View, touch: Touch, candidates: set[str]) -> str | None:
    """The module-level name `touch.name` elsewhere in this release, when there is exactly one such place."""
    if touch.kind != "name":
        return None
    for dotted in sorted(candidates):
        answer = view.release.resolve(dotted)
        if answer is not None and dotted != touch.dotted:
            return dotted
    package = ".".join(touch.owner.split(".")[:2])
    places = []
    for name in view.release.modules():
        if name.startswith(package):
            module = view.release.module(name)
            if module is not None and (touch.name in module.functions or touch.name in module.classes):
                places.append(f"{name}.{touch.name}")
    return places[0] if len(places) == 1 else None
