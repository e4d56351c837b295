"""`patchgate init`: writes the manifest that a patch's text suggests, the project's table, and
GitHub workflows.

The patch is read, never run. Workflows are filled from `ci/github`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from patchgate.cli.parameters import argument, option, options
from patchgate.inputs.patch_source import refuse_empty, source_and_manifest
from patchgate.inputs.project import find_project
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path
from patchgate.report.next_commands import gate_command
from patchgate.runs.init import inferred_manifest, project_files, table_file, workflows


@click.command()
@options
def init(
    *,
    patch: Path = argument(),
    workflow: str | None = option(
        metavar="OWNER/REPO@COMMIT",
        help="Also GitHub workflows that call patchgate's from there.",
    ),
    force: bool = option(help="Replace what is there already; with --workflow only the workflows."),
) -> None:
    """Write a manifest and the project's table for PATCH.

    The manifest states what PATCH replaces, on which releases, and where it is from, by its text.

    Each guess has a comment with the line that suggests it and what verifies it. The
    project's table gets the patch, and .gitignore the results.
    """
    source, manifest = source_and_manifest(patch)
    refuse_empty(source)
    command = gate_command(patch)
    texts = workflows(patch, source, workflow, force) if workflow else {}
    if workflow and manifest.exists():
        click.echo(f"kept {display_path(manifest)}")  # its author has read the guesses by now
    else:
        texts = {manifest: inferred_manifest(source, patch, command)} | texts
    if not workflow and manifest.exists() and not force:
        raise UsageError(
            "already exists",
            where=display_path(manifest),
            got="a file that would be replaced",
            next="the same command with --force replaces it",
        )
    existing = {path: path.is_file() and path.read_text("utf-8") for path in texts}
    project_texts, lines = project_files(patch)
    for path, text in (texts | project_texts).items():
        try:
            write_atomically(path, text)
        except OSError as error:
            raise UsageError(
                "cannot be written",
                where=display_path(path),
                got=error.strerror or str(error),
                next="make room there, or the right to write",
            ) from None
        if path in texts:
            done = ("replaced" if force else "added to") if existing[path] else "wrote"
            click.echo(f"{'kept' if existing[path] == text else done} {display_path(path)}")
    for line in lines:
        click.echo(line)
    click.echo(f"next: read the comments, then: {command}")
    if workflow:
        folder = next(each for each in texts if each.suffix == ".yml").parents[1]
        files = (folder, folder.parent / ".gitignore", table_file(find_project(patch)), manifest)
        click.echo(f"then: git add {shlex.join(map(display_path, files))}")
