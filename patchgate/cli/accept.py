"""`patchgate accept`: promote what a run observed to golden."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from patchgate.cli.options import folder_option
from patchgate.inputs.accept import parse_reason, plan_changes, refuse_unattended, write_changes
from patchgate.inputs.matrix import load_matrix
from patchgate.model.errors import UsageError
from patchgate.model.paths import GOLDEN, shown
from patchgate.runner.run import NAME, load_run


@click.command()
@click.option("--reason", metavar="TEXT", help="Why golden changes; goes into golden/HISTORY.md.")
@click.option("--golden", default=str(GOLDEN), type=click.Path(file_okay=False), help="The folder of golden files.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@folder_option
def accept(reason: str | None, golden: str, yes: bool, folder: str) -> None:
    """Show what the last run observed and golden does not hold, ask, and write it. Nothing is run again."""
    refuse_unattended(os.environ)
    run = load_run(Path(folder) / NAME)
    changes = plan_changes(run.store, [row.torch for row in load_matrix()], Path(golden))
    if not changes:
        click.echo("golden already says what the last run observed")
        return
    for change in changes:
        click.echo("\n".join((shown(change.path), *(f"  {line}" for line in change.facts))))
    text = parse_reason(reason)
    count = f"{sum(len(change.facts) for change in changes)} facts in {len(changes)} files"
    if not yes:
        if not has_terminal():
            raise UsageError("nobody to ask", where="--yes", got="no terminal", next="read the lines, then add --yes")
        click.confirm(f"write {count}?", abort=True)
    write_changes(changes, text, Path(golden))
    click.echo(f"{count} written below {shown(golden)}; commit them")


def has_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()
