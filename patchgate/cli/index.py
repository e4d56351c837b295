"""`patchgate index`: add, list, diff and drift."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import click
from packaging.version import Version

from patchgate.cli.parameters import argument, option, options
from patchgate.lint.index.build import SourceRelease, add
from patchgate.lint.index.changes import diff, drift
from patchgate.lint.index.release import FOLDER, Index, opened
from patchgate.lint.index.resolve import Modules, refuse_unknown
from patchgate.lint.index.sources import version_in
from patchgate.model.errors import UsageError
from patchgate.model.text import nearest
from patchgate.model.versions import allowed_releases

Folder = Annotated[
    Path | None,
    option(
        file_okay=False,
        help="The folder of the index; default: the shipped one, golden/surface.",
    ),
]


@click.group("index")
def index_group() -> None:
    """Query or extend the index of torch releases that lint uses."""


@index_group.command("list")
@options
def list_command(folder: Folder) -> None:
    """The releases that the index knows."""
    index = _index(folder)
    for version in index.sets.releases:
        count = sum(
            bool(releases & index.sets.bits[version]) for releases in index.modules.values()
        )
        triton = f", triton {index.triton[version]}" if index.triton[version] else ""
        click.echo(f"{version}  {count} modules{triton}")


@index_group.command("diff")
@options
def diff_command(
    *,
    old: str = argument(),
    new: str = argument(),
    prefix: str = argument(required=False, default=""),
    folder: Folder,
) -> None:
    """Print the changes from OLD to NEW below PREFIX, e.g. torch._inductor.ir (+ new, - gone, ~
    changed).
    """

    index = _index(folder)
    for version in (old, new):
        if version not in index.sets.releases:
            raise UsageError(
                "a release that is not indexed",
                where="index",
                got=version,
                next=nearest(version, index.sets.releases),
            )
    before, after = index.release(old), index.release(new)
    if prefix:
        refuse_unknown(prefix, (before, after), "index diff")
    lines = list(diff(before, after, prefix))
    click.echo("\n".join(lines) if lines else f"no change from {old} to {new}")


@index_group.command("drift")
@options
def drift_command(
    *,
    names: tuple[str, ...] = argument(required=True, metavar="NAME..."),
    spec: str = option(
        "--torch",
        default="",
        show_default=False,
        metavar="SPEC",
        help='Only these releases, e.g. ">=2.8".',
    ),
    sources: tuple[Path, ...] = option(
        exists=True,
        file_okay=False,
        help="Instead of the index: a site-packages with torch in it; repeat it for each release.",
    ),
    folder: Folder,
) -> None:
    """Each step between releases at which NAME came, went, or changed its signature or body."""

    known: dict[str, Modules]
    if sources:
        known = _from_sources(sources)
    else:
        index = _index(folder)
        known = {version: index.release(version) for version in index.sets.releases}
    releases = allowed_releases(spec, known)
    for name in names:
        refuse_unknown(name, [known[version] for version in releases], "index drift")
        steps = list(drift(name, releases, known.__getitem__))
        click.echo(name if steps else f"{name}: no change from {releases[0]} to {releases[-1]}")
        for old, new, change in steps:
            click.echo(f"  {old} -> {new}: {change}")


@index_group.command("add")
@options
def add_command(*, version: str = argument(), folder: Folder) -> None:
    """Read VERSION from its wheel on the package index; only the Python sources are fetched."""

    from patchgate.lint.index.wheel import fetch

    try:
        release = str(Version(version))
    except ValueError:
        raise UsageError(
            "not a version", where="index add", got=version, next="patchgate index add 2.16.0"
        ) from None
    start = time.monotonic()
    index = _index(folder, may_be_new=True)
    for line in add(index, release, fetch):
        click.echo(line)
    click.echo(f"indexed in {time.monotonic() - start:.1f} s")


def _index(folder: Path | None, *, may_be_new: bool = False) -> Index:

    index = opened(folder or FOLDER)
    if not index.sets.releases and not may_be_new:
        raise UsageError(
            "no index there",
            where="--folder",
            got=str(folder or FOLDER),
            next="patchgate index add 2.13.0",
        )
    return index


def _from_sources(folders: tuple[Path, ...]) -> dict[str, Modules]:
    """The releases installed in these folders, oldest first."""

    found = {}
    for folder in folders:
        version = version_in(folder)
        if version is None:
            raise UsageError(
                "no torch there",
                where="--sources",
                got=str(folder),
                next="give a site-packages with torch/version.py",
            )
        found[version] = SourceRelease(version, folder)
    return {version: found[version] for version in sorted(found, key=Version)}
