"""`patchgate comment`: results of other machines, for a pull request."""

from __future__ import annotations

from pathlib import Path

import click

from patchgate.cli.parameters import argument, options
from patchgate.report.markdown import render_comment


@click.command()
@options
def comment(
    *,
    folders: tuple[Path, ...] = argument(required=True, file_okay=False),
) -> None:
    """Print results as one comment for a pull request.

    Files in FOLDERS are not trusted: text from them is escaped and shortened.
    """
    click.echo(render_comment(folders), nl=False)
