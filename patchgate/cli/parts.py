"""`patchgate parts`: judge each part of a file that installs several patches, by conditions or by
several calls.

Each part is judged alone, with all other parts as `--with`, and in both orders with each other
part; then the whole file is judged.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click

from patchgate.cli.parameters import argument, option, options
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import source_and_manifest
from patchgate.model.files import make_folder
from patchgate.model.paths import display_path
from patchgate.report.next_commands import gate_command
from patchgate.runs.init import gated_parts


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

    The patches are the calls that `apply` lists in the manifest, or else each block below a
    condition of its own. OPTIONS go to each `patchgate gate`.
    """
    source, manifest = source_and_manifest(patch)
    calls = load_patch(patch).claims.apply
    parts = (
        {call: f"{patch}::{call}" for call in calls}
        if len(calls) > 1
        else gated_parts(source, manifest, folder, gate_command, click.echo)
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
    # The first of these: red, usage, trouble with the machine, nothing judged.
    sys.exit(next((code for code in (1, 2, 4, 3) if code in codes.values()), max(codes.values())))


def _gate(arguments: list[str], folder: Path) -> int:
    command = [sys.executable, "-m", "patchgate", "gate", *arguments, "--folder", str(folder)]
    return subprocess.run(command).returncode
