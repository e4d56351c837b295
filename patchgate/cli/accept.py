"""`patchgate accept`: promote what a run observed to golden."""

from __future__ import annotations

import os
from pathlib import Path

import click

from patchgate.cli.options import folder_option
from patchgate.inputs.accept import parse_reason, plan_changes, refuse_unattended, write_changes
from patchgate.inputs.matrix import load_matrix
from patchgate.model.paths import GOLDEN, shown
from patchgate.runner.run import NAME, load_run


@click.command()
@click.option("--reason", metavar="TEXT", help="Why golden changes; goes into golden/HISTORY.md.")
@click.option("--golden", default=str(GOLDEN), type=click.Path(file_okay=False), help="The folder of golden files.")
@folder_option
def accept(reason: str | None, golden: str, folder: str) -> None:
    """Promote what the last run observed to golden. Nothing is run again."""
    refuse_unattended(os.environ)
    run = load_run(Path(folder) / NAME)
    changes = plan_changes(run.store, [row.torch for row in load_matrix()], Path(golden))
    if not changes:
        click.echo("golden already says what the last run observed")
        return
    for change in changes:
        click.echo(change.diff)
    write_changes(changes, parse_reason(reason), Path(golden))
    click.echo(f"{len(changes)} files below {shown(golden)} changed; read the diff, then commit them")
