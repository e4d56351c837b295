"""`patchgate init`: a manifest for a patch that has none, by looking at it.

Decides options and what is written where. Refuses to run the patch, and to replace a file that it was not told to.
"""

from __future__ import annotations

from pathlib import Path

import click

from patchgate.errors import UsageError
from patchgate.files import write_atomically
from patchgate.manifest import manifest_text
from patchgate.patches import DIFFS, files_of
from patchgate.project import shown


@click.command()
@click.argument("patch", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace what is there already.")
def init(patch: Path, force: bool) -> None:
    """Write a manifest for PATCH by looking at it: what it replaces, on which releases, where it is from.

    Each guess has a comment with the line that suggests it and the verdict that settles it.
    """
    source, manifest = files_of(patch)
    text = _guessed(source, patch)
    _write(manifest, text, force, again=f"patchgate init {shown(patch)} --force")
    click.echo(f"next: read the comments, then: nox -s gate -- {shown(patch)}")


def _guessed(source: Path, patch: Path) -> str:
    from patchgate.surface.claiming import guesses_in, guesses_in_diff
    from patchgate.surface.index import load, releases
    from patchgate.surface.lint import Unreadable, parse

    text = source.read_text(encoding="utf-8", errors="replace")
    if source.suffix in DIFFS:
        guesses = guesses_in_diff(text)
    else:
        try:
            guesses = guesses_in(text, parse(text), [load(version) for version in releases()])
        except (Unreadable, RecursionError) as error:
            line, reason = (error.line, error.reason) if isinstance(error, Unreadable) else (1, "nested too deeply")
            where = f"{shown(source)}:{line}"
            raise UsageError("not readable as Python", where=where, got=reason, next="mend the file first") from None
    name = patch.resolve().name if patch.is_dir() else source.stem
    return manifest_text(guesses, source.name, name, f"nox -s gate -- {shown(patch)}", releases())


def _write(path: Path, text: str, force: bool, again: str) -> None:
    there = path.exists()
    if there and not force:
        raise UsageError("is there already", where=shown(path), got="a file that would be replaced", next=again)
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError("cannot be written", where=shown(path), got=error.strerror or str(error)) from None
    click.echo(f"{'replaced' if there else 'wrote'} {shown(path)}")
