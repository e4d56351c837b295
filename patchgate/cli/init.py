"""`patchgate init`: a manifest for a patch that has none, by looking at it, and workflows that judge it.

Decides options and what is written where. Refuses to run the patch, and to replace a file that it was not told to.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from patchgate.inputs.patch import DIFFS, files_of
from patchgate.inputs.source import Unreadable, parse, read_source
from patchgate.lint.infer_manifest import manifest_text
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import ROOT, shown
from patchgate.model.records import Command
from patchgate.report.commands import typed


@click.command()
@click.argument("patch", type=click.Path(path_type=Path))
@click.option("--workflow", metavar="OWNER/REPO@COMMIT", help="Also GitHub workflows that call patchgate's from there.")
@click.option("--force", is_flag=True, help="Replace what is there already; with --workflow only the workflows.")
def init(patch: Path, workflow: str | None, force: bool) -> None:
    """Write a manifest for PATCH by looking at it: what it replaces, on which releases, where it is from.

    Each guess has a comment with the line that suggests it and the verdict that settles it.
    """
    source, manifest = files_of(patch)
    written = _workflows(patch, source, workflow) if workflow else {}
    if workflow and manifest.exists():
        click.echo(f"kept {shown(manifest)}")  # its author has read the guesses by now
    else:
        written = {manifest: guessed(source, patch)} | written
    there = [path for path in written if path.exists()]
    if there and not force:
        again = "the same command with --force replaces it"
        if there[0].suffix == ".yml":
            again = f"add this patch to its `patches` and `paths`, and init it without --workflow; {again}"
        raise UsageError("is there already", where=shown(there[0]), got="a file that would be replaced", next=again)
    for path, text in written.items():
        _write(path, text)
    click.echo(f"next: read the comments, then: {_gate(patch)}")


def guessed(source: Path, patch: Path) -> str:
    """The manifest that the text of a patch suggests. Raises UsageError where it cannot be read."""
    from patchgate.lint.index.release import load, releases
    from patchgate.lint.infer import guesses_in, guesses_in_diff

    if source.suffix in DIFFS:
        guesses = guesses_in_diff(read_source(source))
    else:
        try:
            text = read_source(source)
            guesses = guesses_in(text, parse(text), [load(version) for version in releases()])
        except (Unreadable, RecursionError) as error:
            line, reason = (error.line, error.reason) if isinstance(error, Unreadable) else (1, "nested too deeply")
            where = f"{shown(source)}:{line}"
            raise UsageError("not readable as Python", where=where, got=reason, next="mend the file first") from None
    name = patch.resolve().name if patch.is_dir() else source.stem
    return manifest_text(guesses, source.name, name, _gate(patch), releases())


def _gate(patch: Path) -> str:
    return typed(Command(name="gate", arguments=(shlex.quote(shown(patch)),)))


def _workflows(patch: Path, source: Path, called: str) -> dict[Path, str]:
    """Those of ci/github that judge a pull request and comment on it, with the placeholders filled in."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./-]+", called):
        advice = "--workflow OWNER/patchgate@COMMIT, a repository that holds patchgate and the commit to use"
        raise UsageError("not OWNER/REPO@COMMIT", where="--workflow", got=called, next=advice)
    path = patch.resolve()
    root = next((each for each in path.parents if (each / ".git").exists()), None)
    if root is None:
        got, advice = "no git repository around it", "git init, where the workflows shall be"
        raise UsageError("nowhere to put a workflow", where=shown(patch), got=got, next=advice)
    named = path.relative_to(root).as_posix()
    if not re.fullmatch(r"[\w./-]+", named):
        advice = "letters, digits, and . / _ - only: a workflow tells patches apart by blanks"
        raise UsageError("cannot be named in a workflow", where=shown(patch), got=named, next=advice)
    watched = f"{named}/**" if patch.is_dir() else f"{named.removesuffix(source.suffix)}.*"
    repository, _, commit = called.partition("@")
    filled = {
        "PATCH/**": watched,
        "OWNER/patchgate": repository,
        "@COMMIT": f"@{commit}",
        "patches: PATCH": f"patches: {named}",
    }
    return {
        root / ".github" / "workflows" / name: _fill((ROOT / "ci" / "github" / template).read_text("utf-8"), filled)
        for name, template in (("patchgate.yml", "gate.yml"), ("patchgate-comment.yml", "comment.yml"))
    }


def _fill(text: str, filled: dict[str, str]) -> str:
    """Without the head, which tells how to paste."""
    lines = text.splitlines(keepends=True)
    text = "".join(lines[next(at for at, line in enumerate(lines) if not line.startswith("#")) :])
    for placeholder, value in filled.items():
        text = text.replace(placeholder, value)
    return text


def _write(path: Path, text: str) -> None:
    there = path.exists()
    try:
        write_atomically(path, text)
    except OSError as error:
        raise UsageError("cannot be written", where=shown(path), got=error.strerror or str(error)) from None
    click.echo(f"{'replaced' if there else 'wrote'} {shown(path)}")
