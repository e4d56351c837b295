"""`patchgate models`: what a patch, or another release of torch, does to public models on a
simulated GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from patchgate.cli.main import say
from patchgate.cli.options import Rows, Torches, cases, memory_limit, own_folder, time_limit
from patchgate.cli.parameters import argument, option, options
from patchgate.inputs.devices import load_profile
from patchgate.inputs.models import model_names, model_path
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import find_project, project_around
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import MACHINE
from patchgate.model.files import write_atomically
from patchgate.model.public_model_figures import Impact
from patchgate.report.models import impact_html, impact_markdown, show_impact
from patchgate.report.terminal import to_stdout
from patchgate.runner.run_settings import Limits, Run
from patchgate.runs.observe import impact_on_models
from patchgate.runs.plan import chosen_environments, emptied_folder, with_models

# The memory that one of the larger models needs in addition to torch.
_MIB = 6144


@click.command()
@options
def models(
    *,
    patch: Path | None = argument(),
    names: tuple[str, ...] = option(
        "--model", metavar="NAME", help="Only these, or a .toml file's; default: all."
    ),
    torches: Torches,
    rows: Rows,
    first: str | None = option(
        "--from",
        metavar="RELEASE",
        help="Without a PATCH: compare this release of torch ...",
    ),
    last: str | None = option("--to", metavar="RELEASE", help="... with this one."),
    device: str = option(default="h200", metavar="NAME", help="Device profile."),
    time_limit: float = time_limit(240.0),
    memory_limit: int = memory_limit(_MIB),
    workers: int = cases(memory=6),
    folder: Path = own_folder(".patchgate/models", "the observations and the pages"),
) -> NoReturn:
    """Show the effect of PATCH on public models.

    On all that are shipped, or --model; without PATCH, the effect of moving --from one release
    --to another.

    Exit codes: 0 compared, 1 a model compiles no more, 2 usage, 4 one could not be compared.
    """
    if patch:
        load_patch(patch)
    for name in names:
        model_path(name)
    project = project_around(patch) if patch else find_project(Path.cwd())
    project, _ = with_models(
        replace(project, models=() if names else project.models), names or model_names()
    )
    if load_profile(device, project.profiles)["kind"] == "real":
        raise UsageError(
            "not a simulated device", where="--device", got=device, next="--device h200"
        )
    torches = torches or tuple(filter(None, (first, last)))
    if not patch and len(rows or torches) < 2:
        raise UsageError(
            "nothing to compare",
            where="PATCH",
            got="no PATCH, and no two releases",
            next="patchgate models PATCH, or patchgate models --from 2.12.1 --to 2.13.0",
        )
    environments, missing = chosen_environments(project, rows, (), torches, say)
    if missing or not environments:
        raise UsageError(
            "no torch to compare on", where="--torch", got="; ".join(missing.values()), next="--row"
        )
    run = Run(
        folder=emptied_folder(folder),
        patch=str(patch.resolve()) if patch else "",
        project=project,
        rows=environments,
        devices=(device,),
        limits=Limits(seconds=time_limit, bytes=memory_limit << 20),
        shared_cache=str(Path(".patchgate").resolve() / "unpatched"),
    )
    impacts = impact_on_models(run, workers, say)
    sys.exit(_show(impacts, folder))


def _show(impacts: Mapping[str, Impact], folder: Path) -> int:
    """Print each comparison, leave its pages in the folder, and return the exit code."""
    at = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    for title, impact in impacts.items():
        name = title.replace(" ", "-")
        write_atomically(folder / f"{name}.md", impact_markdown(title, impact))
        write_atomically(folder / f"{name}.html", impact_html(title, impact, at=at))
        click.echo(title)
        to_stdout(partial(show_impact, impact=impact))
    rows = [row for impact in impacts.values() for row in impact.rows]
    return (
        1 if any(row.broken for row in rows) else MACHINE if any(row.failed for row in rows) else 0
    )
