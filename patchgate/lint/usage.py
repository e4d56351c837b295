"""The private names of torch that patches or a whole package use, and the releases that have
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from patchgate.inputs.patch_source import DIFFS, Unreadable, read_source
from patchgate.lint.find_patches import walk
from patchgate.lint.findings import View
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Presence, Reference
from patchgate.lint.interpret.torch_names import is_private, look_up
from patchgate.lint.interpret.values import Instance, Symbol, Value
from patchgate.lint.run import views_of
from patchgate.model.records import record


@record
class UsedName:
    """One private name of torch.

    `since` and `until` are the first and the last release that has the name; "" stands for the
    oldest and the newest known release. `lacking` are the project's releases without the name, and
    `maybe` the releases where a `__getattr__` or a subclass may provide it. `places` are file:line;
    `ungated` are the places that run on a release without the name.
    """

    name: str
    kind: str
    since: str
    until: str
    lacking: tuple[str, ...]
    maybe: tuple[str, ...]
    places: tuple[str, ...]
    ungated: tuple[str, ...]


@record
class UsageReport:
    """The names in alphabetical order, the files that use them, and the releases that the projects
    support.

    `unreadable` gives file:line and the reason for each file that could not be parsed.
    """

    names: tuple[UsedName, ...]
    files: tuple[str, ...]
    unreadable: tuple[str, ...]
    releases: tuple[str, ...]
    walked: int
    ranges: tuple[str, ...]


def usage(
    paths: Iterable[Path], known: Sequence[Release], chosen: Sequence[Release] | None = None
) -> UsageReport:
    """Return the private names that the patches at `paths` use on the `chosen` releases. Without
    `chosen`, each patch is read on the releases that its project supports.

    Raises UsageError for a path that does not exist, or a file that is not Python.
    """
    found = walk(paths, known if chosen is None else chosen, whole=chosen is not None)
    uses: dict[str, list[tuple[str, View, Reference]]] = {}
    files, unreadable = [], []
    for place in found.places:
        if place.file.suffix in DIFFS:
            continue
        try:
            views = views_of(read_source(place.file), place.releases, place=place)
        except Unreadable as error:
            if not place.walked:
                raise error.in_file(place.file) from None
            unreadable.append(f"{place.name}:{error.line}: {error.reason}")
            continue
        except (RecursionError, MemoryError):
            unreadable.append(f"{place.name}:1: nested too deeply")
            continue
        private = [
            (view, each)
            for view in views
            for each in view.usage.references
            if is_private(each.dotted)
        ]
        files += [place.name] if private else []
        for view, each in private:
            uses.setdefault(each.dotted, []).append((place.name, view, each))
    return UsageReport(
        names=tuple(_used(name, uses[name], known, found.versions) for name in sorted(uses)),
        files=tuple(files),
        unreadable=tuple(unreadable),
        releases=tuple(found.versions),
        walked=found.files,
        ranges=tuple(found.ranges),
    )


def _used(
    name: str,
    uses: Sequence[tuple[str, View, Reference]],
    releases: Sequence[Release],
    supported: Sequence[str],
) -> UsedName:
    example = uses[0][2]
    seen = {view.version: each.presence for _, view, each in uses}
    presence = {
        each.version: seen.get(each.version) or _presence(each, example) for each in releases
    }
    having = [version for version, there in presence.items() if there is not Presence.MISSING] or [
        ""
    ]
    lacking = tuple(version for version in supported if presence[version] is Presence.MISSING)
    ungated = {
        _at(file, each) for file, view, each in uses if each.reachable and view.version in lacking
    }
    return UsedName(
        name=name,
        kind=example.kind,
        since=having[0] if having[0] != releases[0].version else "",
        until=having[-1] if having[-1] != releases[-1].version else "",
        lacking=lacking,
        maybe=tuple(version for version in supported if presence[version] is Presence.MAYBE),
        places=_sorted({_at(file, each) for file, _, each in uses}),
        ungated=_sorted(ungated),
    )


def _presence(release: Release, reference: Reference) -> Presence:
    """Look up a name in a release, for a patch that does not refer to the name there."""
    if reference.kind == "module":
        return Presence.PRESENT if reference.dotted in release.modules() else Presence.MISSING
    on_module = reference.owner in release.modules()
    owner: Value = Symbol(dotted=reference.owner, kind="module")
    if not on_module:
        if release.resolve(reference.owner) is None:
            return Presence.MISSING
        owner = Instance(classes=(reference.owner,))
    return look_up(release, owner, reference.name)[0]


def _at(file: str, reference: Reference) -> str:
    return f"{file}:{reference.span.line}"


def _sorted(places: Iterable[str]) -> tuple[str, ...]:
    def key(place: str) -> tuple[str, int]:
        file, _, line = place.rpartition(":")
        return file, int(line)

    return tuple(sorted(places, key=key))
