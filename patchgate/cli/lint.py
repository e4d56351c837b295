"""`patchgate lint`: does a patch bind on every known torch release?

Imports wait until they are needed: half of the second that it takes is Python's own start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgate.model.errors import UsageError

if TYPE_CHECKING:
    from patchgate.lint.index.release import Release
    from patchgate.lint.index.sources import Sources


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATCH...")
@click.option("--format", "form", type=click.Choice(["text", "json", "github", "sarif"]), default="text")
@click.option("--torch", "spec", default="", metavar="SPEC", help='Only these releases, e.g. ">=2.9,<2.13".')
@click.option("--details", is_flag=True, help="Three-way views and full lists of holders.")
@click.option("--names", is_flag=True, help="Also list every name of torch that is touched, with its releases.")
@click.option(
    "--sources",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A site-packages with torch in it, for bodies, lines of calls and hunks of diffs; may be repeated.",
)
@click.option("--fetch", is_flag=True, help="Read the sources of other releases from their wheels; kept in a cache.")
def lint(
    paths: tuple[Path, ...], form: str, spec: str, details: bool, names: bool, sources: tuple[Path, ...], fetch: bool
) -> None:
    """Does PATCH still bind on every known torch release? Needs no torch.

    Exit codes: 0 nothing red, 1 red, 2 usage, 3 nothing to lint.
    """
    from patchgate.inputs.matrix import load_matrix
    from patchgate.lint.run import lint as lint_patches
    from patchgate.model.paths import MATRIX
    from patchgate.report.lint import render_findings

    try:
        available = _sources(sources, fetch)
        in_matrix = frozenset(row.torch for row in load_matrix()) if MATRIX.is_file() else frozenset()
        report = lint_patches(paths, _releases(spec, available), available, in_matrix)
    except UsageError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    if available is not None and available.trouble:
        click.echo(f"no sources, bodies are compared by fingerprint: {available.trouble}", err=True)
    if not report.files:
        got = "no .py, .diff or .patch file"
        advice = "a folder with patch.py or patch.diff, a .py file, or a .diff file"
        click.echo(str(UsageError("nothing to lint", where=", ".join(map(str, paths)), got=got, next=advice)), err=True)
    click.echo(render_findings(report, form, details=details, names=names), nl=False)
    raise SystemExit(report.exit_code)


def _sources(folders: tuple[Path, ...], fetch: bool) -> Sources | None:
    """None where no option asks for sources: lint is offline, and the same on every machine."""
    if not folders and not fetch:
        return None
    from patchgate.lint.index.release import FOLDER, opened
    from patchgate.lint.index.sources import Sources
    from patchgate.model.paths import user_cache

    if not fetch:
        return Sources(folders)
    from patchgate.lint.index.wheel import open_wheel

    return Sources(folders, open_wheel=open_wheel, triton=opened(FOLDER).triton, cache=user_cache("sources"))


def _releases(spec: str, sources: Sources | None) -> list[Release]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from patchgate.lint.index.release import load, releases

    try:
        wanted = SpecifierSet(spec)
    except InvalidSpecifier:
        got, advice = f"--torch {spec}", '--torch ">=2.9,<2.13"'
        raise UsageError("not a PEP 440 specifier", where="--torch", got=got, next=advice) from None
    chosen = [version for version in releases() if wanted.contains(version, prereleases=True)]
    if not chosen:
        got = spec or "an empty index"
        raise UsageError("no indexed release", where="--torch", got=got, next="patchgate index list")
    return [load(version, sources) for version in chosen]
