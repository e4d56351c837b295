"""`patchgate ecosystem`: what the next release of torch breaks, in many projects at once."""

from __future__ import annotations

import os
from pathlib import Path

import click

from patchgate.cli.parameters import argument, option, options
from patchgate.lint.ecosystem import judge_projects
from patchgate.model.files import write_atomically
from patchgate.report.ecosystem import as_json, as_markdown


@click.command()
@options
def ecosystem(
    *,
    projects: Path = argument(exists=True, dir_okay=False, metavar="LIST.toml"),
    folder: Path = option(
        required=True,
        exists=True,
        file_okay=False,
        help="The projects, as OWNER/NAME, OWNER+NAME or NAME: checkouts or bare repositories.",
    ),
    output: Path = option(
        default=Path("ecosystem.md"), help="The page; the same as JSON goes to NAME.json."
    ),
    jobs: int | None = option(
        "-n",
        "--jobs",
        type=click.IntRange(1),
        metavar="COUNT",
        help="Processes a project: one a core, at most four.",
    ),
) -> None:
    """Lint the projects of LIST.toml and make one page of them.

    The list has a table for each project: [[project]] repository = "OWNER/NAME", commit = "...".
    The page says of each project what is broken now, what breaks next, and what its lower bound is.

    Exit codes: 0 a page, 2 usage.
    """
    judged = list(judge_projects(projects, folder, jobs or min(4, os.cpu_count() or 1)))
    write_atomically(output, as_markdown(judged))
    write_atomically(output.with_suffix(".json"), as_json(judged))
    click.echo(f"{len(judged)} projects in {output}")
