"""`patchgate lint`: the command's words and exit codes (0 nothing red, 1 red, 2 usage, 3 nothing to lint).

Decides options only. The imports wait until they are needed: half of the second is Python's own start.
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
    """Does PATCH still bind on every known torch release? Needs no torch."""
    from patchgate.lint.run import lint as find

    try:
        at_hand = _sources(sources, fetch)
        report = find(paths, _releases(spec, at_hand), at_hand, _matrix())
    except UsageError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    if at_hand is not None and at_hand.trouble:
        click.echo(f"no sources, bodies are compared by fingerprint: {at_hand.trouble}", err=True)
    if not report.files:
        got, advice = (
            "no .py, .diff or .patch file",
            "a folder with patch.py or patch.diff, a .py file, or a .diff file",
        )
        click.echo(str(UsageError("nothing to lint", where=", ".join(map(str, paths)), got=got, next=advice)), err=True)
    if form == "json":
        from patchgate.report.lint.json import as_json as shown
    elif form == "github":
        from patchgate.report.lint.github import as_github as shown
    elif form == "sarif":
        from patchgate.report.lint.sarif import as_sarif as shown
    else:
        from patchgate.report.lint.text import as_text

        click.echo(as_text(report, details=details, names=names), nl=False)
        raise SystemExit(report.exit_code)
    click.echo(shown(report), nl=False)
    raise SystemExit(report.exit_code)


def _sources(folders: tuple[Path, ...], fetch: bool) -> Sources | None:
    """Nothing where no option asks for sources: lint is offline, and the same on every machine."""
    if not folders and not fetch:
        return None
    from patchgate.lint.index.release import FOLDER, opened
    from patchgate.lint.index.sources import Sources, cache_folder

    if not fetch:
        return Sources(folders)
    from patchgate.lint.index.wheel import open_wheel

    return Sources(folders, open_wheel=open_wheel, triton=opened(FOLDER).triton, cache=cache_folder())


def _matrix() -> frozenset[str]:
    from patchgate.inputs.matrix import load_matrix
    from patchgate.model.paths import MATRIX

    return frozenset(row.torch for row in load_matrix()) if MATRIX.is_file() else frozenset()


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
        raise UsageError(
            "no indexed release", where="--torch", got=spec or "an empty index", next="patchgate index list"
        )
    return [load(version, sources) for version in chosen]


if __name__ == "__main__":
    lint()
