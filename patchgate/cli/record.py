"""`patchgate record`: keeps what a run observed on a real GPU, so that the simulation can be
compared with it anywhere.

A recording is a golden file below golden/recorded; MACHINES.md there lists the machines.
"""

from __future__ import annotations

from pathlib import Path

import click

from patchgate.cli.options import Folder
from patchgate.cli.parameters import option, options
from patchgate.inputs.devices import load_profile
from patchgate.inputs.matrix import load_matrix
from patchgate.model.paths import DEVICES, display_path
from patchgate.runner.run_settings import NAME, load_run
from patchgate.runs.accept import record_device, record_padding


@click.command()
@options
def record(
    *,
    profile: str = option(
        required=True,
        metavar="NAME",
        help="The device profile that the machine's GPU is.",
    ),
    folder: Folder,
) -> None:
    """Store the facts of a real GPU, to compare the simulation with.

    Reads the last run of `patchgate gate --device cuda`.
    """
    run = load_run(Path(folder) / NAME)
    golden = run.project.golden_folder
    releases = [row.torch for row in load_matrix()]
    for path in record_device(run.store, profile, load_profile(profile)["name"], golden, releases):
        click.echo(f"wrote {display_path(path)}")
    record_padding(run.store, Path(run.project.profiles.get(profile, DEVICES / f"{profile}.toml")))
