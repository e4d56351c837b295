"""`patchgate doctor`: what this machine has and lacks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from patchgate.cli.options import Folder
from patchgate.cli.parameters import options
from patchgate.inputs.project import find_project
from patchgate.model.exit_code import MACHINE
from patchgate.model.text import counted
from patchgate.runs.doctor import examine


@click.command()
@options
def doctor(*, folder: Folder) -> NoReturn:
    """Say what a gate needs and what this machine lacks.

    Exit code 4 if a gate could not do its work here.
    """
    missing = 0
    for each in examine(find_project(Path.cwd()), Path(folder)):
        missing += each.is_missing
        mark = "MISSING" if each.is_missing else "note" if each.fix else "ok"
        click.echo(f"{mark:8}{each.name}: {each.found}")
        if each.fix:
            click.echo(f"{'':8}next: {each.fix}")
    click.echo(f"{counted(missing, 'problem')}; exit code {MACHINE if missing else 0}")
    sys.exit(MACHINE if missing else 0)
