"""`patchgate init`: a manifest for a patch that has none, and workflows that judge it."""

from __future__ import annotations

from pathlib import Path

import click

from patchgate.inputs.patch_source import source_and_manifest
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path
from patchgate.report.next_commands import gate_command


@click.command()
@click.argument("patch", type=click.Path(path_type=Path))
@click.option("--workflow", metavar="OWNER/REPO@COMMIT", help="Also GitHub workflows that call patchgate's from there.")
@click.option("--force", is_flag=True, help="Replace what is there already; with --workflow only the workflows.")
def init(patch: Path, workflow: str | None, force: bool) -> None:
    """Write a manifest and the project's table for PATCH.

    The manifest states what PATCH replaces, on which releases, and where it is from, by its text.

    Each guess has a comment with the line that suggests it and the verdict that settles it. The project's table gets
    the patch, and .gitignore the results.
    """
    from patchgate.runs.init import inferred_manifest, project_files, workflows  # reads the index of every release

    source, manifest = source_and_manifest(patch)
    command = gate_command(patch)
    texts = workflows(patch, source, workflow) if workflow else {}
    if workflow and manifest.exists():
        click.echo(f"kept {display_path(manifest)}")  # its author has read the guesses by now
    else:
        texts = {manifest: inferred_manifest(source, patch, command)} | texts
    existing = [path for path in texts if path.exists()]
    if existing and not force:
        advice = "the same command with --force replaces it"
        if existing[0].suffix == ".yml":
            advice = f"add this patch to its `patches` and `paths`, and init it without --workflow; {advice}"
        got = "a file that would be replaced"
        raise UsageError("is there already", where=display_path(existing[0]), got=got, next=advice)
    project_texts, lines = project_files(patch)
    for path, text in (texts | project_texts).items():
        try:
            write_atomically(path, text)
        except OSError as error:
            got, advice = error.strerror or str(error), "make room there, or the right to write"
            raise UsageError("cannot be written", where=display_path(path), got=got, next=advice) from None
        if path in texts:
            click.echo(f"{'replaced' if path in existing else 'wrote'} {display_path(path)}")
    for line in lines:
        click.echo(line)
    click.echo(f"next: read the comments, then: {command}")
