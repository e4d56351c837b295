"""`patchgate accept`: promote what a run observed to golden."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from patchgate.cli.options import folder_option
from patchgate.inputs.accept import parse_reason, plan_changes, refuse_unattended, write_changes
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.project import Project, find_project
from patchgate.model.errors import UsageError
from patchgate.model.paths import display_path
from patchgate.runner.run_settings import Run, runs_in


@click.command()
@click.option("--reason", metavar="TEXT", help="Why golden changes; goes into its HISTORY.md.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@folder_option
def accept(reason: str | None, yes: bool, folder: str) -> None:
    """Record the facts of the last run in the golden files. Nothing is run.

    Shows each fact that changes, asks, and writes. `--yes` does not ask.
    """
    refuse_unattended(os.environ)
    runs = runs_in(Path(folder))
    golden = _project_of(runs[0]).golden_folder
    observed = [observation for run in runs for observation in run.store]
    changes = plan_changes(observed, [row.torch for row in load_matrix()], golden)
    if not changes:
        click.echo("golden already says what the last run observed")
        return
    for change in changes:
        click.echo("\n".join((display_path(change.path), *(f"  {line}" for line in change.facts))))
    text = parse_reason(reason)
    count = f"{sum(len(change.facts) for change in changes)} facts in {len(changes)} files"
    if not yes:
        if not has_terminal():
            raise UsageError("nobody to ask", where="--yes", got="no terminal", next="read the lines, then add --yes")
        click.confirm(f"write {count}?", abort=True)
    write_changes(changes, text, golden)
    click.echo(f"{count} written below {display_path(golden)}; commit them")


def _project_of(run: Run) -> Project:
    """The project of a run, or that of the working directory where the results come from another machine.

    Raises UsageError where they were copied from another folder of this one, whose golden is not meant.
    """
    root, here = Path(run.project.root).resolve(), Path.cwd().resolve()
    if root.is_relative_to(here) or here.is_relative_to(root):
        return run.project
    if root.exists():
        got, advice = f"of {root}", f"judge again here, or cd {root} first"
        raise UsageError("results of another project", where="--folder", got=got, next=advice)
    return find_project(here)


def has_terminal() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty()
