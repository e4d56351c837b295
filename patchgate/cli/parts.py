"""`patchgate parts`: a file that installs several gated patches, or by several calls, judged patch
by patch.

Each part is judged with all the others as `--with`: alone, with each of them, in both orders. Then
the whole file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click

from patchgate.cli.init import inferred_manifest
from patchgate.cli.parameters import argument, option, options
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import DIFFS, Unreadable, read_source, source_and_manifest
from patchgate.inputs.split_patches import Part, find_parts, source_of_part
from patchgate.inputs.toml import read_toml
from patchgate.model.errors import UsageError
from patchgate.model.files import make_folder, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.text import counted
from patchgate.report.next_commands import gate_command

# Claims of the whole file that hold for each part; where a part applies is read off its own text.
_INHERITED = ("numerics", "error_factor", "largest_ulps", "environment", "stubs")


@click.command(context_settings={"ignore_unknown_options": True})
@options
def parts(
    *,
    patch: Path = argument(),
    options: tuple[str, ...] = argument(type=click.UNPROCESSED),
    folder: Path = option(default=".patchgate/parts", file_okay=False),
) -> NoReturn:
    """Judge each of several patches that one file installs.

    Each is judged alone and together with the others, in both orders.

    Those are the calls that `apply` lists in its manifest, else what stands behind a condition of
    its own. OPTIONS go to each `patchgate gate`.
    """
    source, manifest = source_and_manifest(patch)
    calls = load_patch(patch).claims.apply
    parts = (
        {call: f"{patch}::{call}" for call in calls}
        if len(calls) > 1
        else _gated_parts(source, manifest, folder)
    )
    make_folder(folder, "--folder")
    codes = {}
    for name, path in parts.items():
        others = [
            argument for other in parts.values() if other != path for argument in ("--with", other)
        ]
        click.echo(f"\npart {name} of {display_path(source)}")
        codes[name] = _gate([path, *others, *options], folder / re.sub(r"\W+", "-", name))
    click.echo(f"\nall of {display_path(source)}")
    codes["all together"] = _gate([str(patch), *options], folder / "all")
    click.echo("\n" + "\n".join(f"{name:40} exit code {code}" for name, code in codes.items()))
    # Red before trouble with the machine, and that before nothing judged.
    sys.exit(next((code for code in (1, 2, 4, 3) if code in codes.values()), max(codes.values())))


def _gated_parts(source: Path, manifest: Path, folder: Path) -> dict[str, str]:
    """The patches behind conditions of their own, each written as a patch: its name -> its path."""
    text, found = _parts(source)
    paths = {}
    for part in found:
        click.echo(f"{part.name}: lines {part.first} to {part.last} of {display_path(source)}")
        paths[part.name] = str(_write_part(part, found, text, folder / "patches", source, manifest))
    return paths


def _parts(source: Path) -> tuple[str, list[Part]]:
    try:
        text = read_source(source)
        found = [] if source.suffix in DIFFS else find_parts(text)
    except Unreadable as error:
        raise error.in_file(source) from None
    if len(found) < 2:
        got = (
            f"at most one call in `apply`, and {counted(len(found), 'part')} with a condition of "
            "their own"
        )
        raise UsageError(
            "only one patch in this file",
            where=display_path(source),
            got=got,
            next=f"patchgate gate {display_path(source)}",
        )
    return text, found


def _write_part(
    part: Part, parts: list[Part], text: str, folder: Path, source: Path, manifest: Path
) -> Path:
    """The folder of the part as a patch with claims."""
    path = folder / part.name
    write_atomically(path / "patch.py", source_of_part(text, part, parts))
    claims = read_toml(manifest) if manifest.is_file() else {}
    inherited = [f"{key} = {json.dumps(claims[key])}\n" for key in _INHERITED if key in claims]
    inferred = inferred_manifest(path / "patch.py", path, gate_command(path))
    place = f"part_of = {json.dumps(str(source.resolve()))}\n"
    write_atomically(path / "patch.toml", "".join([place, *inherited]) + inferred)
    return path


def _gate(arguments: list[str], folder: Path) -> int:
    command = [sys.executable, "-m", "patchgate", "gate", *arguments, "--folder", str(folder)]
    return subprocess.run(command).returncode
