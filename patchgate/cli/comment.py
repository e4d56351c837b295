"""`patchgate comment`: results of other machines, for a pull request."""

from __future__ import annotations

from pathlib import Path

import click

from patchgate.report.comment import render_comment


@click.command()
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False)
)
def comment(folders: tuple[Path, ...]) -> None:
    """Print results as one comment for a pull request.

    Files in FOLDERS are not trusted: text from them is escaped and shortened.
    """
    click.echo(render_comment(folders), nl=False)
