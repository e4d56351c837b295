"""`patchgate sweep` and `patchgate history`: every patch on every torch, and the results over time.

A sweep ends with the exit code of its verdicts, as a gate does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, NoReturn

import click

from patchgate.cli.main import say, show_failure
from patchgate.cli.options import (
    Devices,
    Nightly,
    Patches,
    Problems,
    Rows,
    Torches,
    Workers,
    own_folder,
)
from patchgate.cli.parameters import argument, option, options
from patchgate.cli.report import REPORT, write_html
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch_source import source_and_manifest
from patchgate.inputs.project import Project, find_project, project_around
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import exit_code
from patchgate.model.files import make_folder
from patchgate.model.paths import display_path, split_entry
from patchgate.model.records import Command, Verdict
from patchgate.model.results import Regressions
from patchgate.report.history import render_regressions, render_series
from patchgate.runner.cache_keys import read_environment
from patchgate.runner.leftovers import temporary_files_below
from patchgate.runner.results_folder import held
from patchgate.runner.run_settings import VERDICTS, Run, save_verdicts
from patchgate.runner.torch_environments import Environments
from patchgate.runs.gate import ended_by
from patchgate.runs.history.regressions import regressions_in
from patchgate.runs.history.store import History
from patchgate.runs.plan import environments_of, known_devices, problems_of, rows_of
from patchgate.runs.ray import sweep_on_cluster
from patchgate.runs.shards import every_nth
from patchgate.runs.sweep import Job, Sweep

HISTORY = "history.sqlite"
# Changes are shown over this many runs.
_RUNS = 10
_SWEEP = Command(name="sweep", arguments=("PATCH",))
Folder = Annotated[Path, own_folder(".patchgate/sweep", "a sweep's results and history")]


@click.command()
@options
def sweep(
    *,
    patches: Patches,
    rows: Rows,
    problems: Problems,
    own: tuple[str, ...] = option(
        "--python", metavar="PYTHON", help="A torch of your own, or a nightly one."
    ),
    devices: Devices,
    workloads: tuple[str, ...] = option(
        "--workload", metavar="NAME", help="Only this workload. May be repeated."
    ),
    nightly: Nightly,
    shard: str = option(default="1/1", metavar="I/N", help="The I-th of N machines."),
    name: str | None = option(
        "--run",
        metavar="NAME",
        help="The name of the run; its machines share it.",
    ),
    cluster: str | None = option(
        "--on",
        metavar="ADDRESS",
        help="A Ray cluster: `ray` for this machine's, or ray://HOST:10001.",
    ),
    torches: Torches,
    workers: Workers,
    folder: Folder,
) -> NoReturn:
    """Judge every patch on every release, skipping unchanged ones.

    Without PATCHES those of the project's table; without a release all of them. A killed sweep goes
    on where it was.
    """
    project = project_around(patches[0]) if patches else find_project(Path.cwd())
    for path in patches:  # before anything is installed
        source_and_manifest(split_entry(path)[0])
    chosen = patches or _patches_of(project)
    devices = known_devices(project, chosen, devices, workloads)
    pythons = rows_of(rows) | {read_environment(python)["torch"]: python for python in own}
    broken = problems_of(problems)
    number, count = _shard(shard)
    made = torches or (
        () if pythons or broken else project.releases or tuple(row.torch for row in load_matrix())
    )
    if made and not cluster:
        environments, missing = environments_of(made, project, say)
        pythons, broken, made = pythons | environments, broken | missing, ()
    every = dict.fromkeys([*pythons, *broken, *made])
    jobs = every_nth(
        [Job(torch=torch, patch=patch) for patch in chosen for torch in every], number, count
    )
    make_folder(folder, "--folder")
    at = datetime.now(timezone.utc).isoformat(timespec="seconds")
    run = name or f"{at} {shard}"
    template = Run(
        folder="",
        patch="",
        rows={},
        project=project,
        devices=devices,
        workloads=workloads,
        nightly=nightly,
    )
    with closing(History(folder / HISTORY)) as history:
        swept = Sweep(
            folder=folder,
            environments=Environments(pythons, failed=broken),
            history=history,
            progress=click.echo,
            template=template,
            workers=workers,
        )
        with held(folder), temporary_files_below():
            verdicts = _judge(swept, jobs, cluster, run, at)
        save_verdicts(folder, verdicts)
        regressions = regressions_in(history.recent(_RUNS))
    sys.exit(_show(swept, verdicts, regressions, f"sweep {at}"))


def _judge(
    swept: Sweep, jobs: Sequence[Job], cluster: str | None, run: str, at: str
) -> list[Verdict]:
    """Judge all jobs and return the verdicts. After a signal or a fault, the verdicts also name the
    jobs that were not judged.
    """
    try:
        if cluster:
            return swept.record(sweep_on_cluster(cluster, swept, jobs), len(jobs), run, at)
        return swept.judge_all(jobs, run, at)
    except UsageError:
        raise
    except (KeyboardInterrupt, Exception) as error:
        show_failure(error)
        return swept.stop(jobs, ended_by(error))


def _patches_of(project: Project) -> list[Path]:
    """The patches in the project's table. Raises UsageError if the table names none."""
    paths = project.patch_paths()
    if not paths:
        raise project.fault(
            "patches", "no patch to judge", "no PATCH, and no `patches` in a table", _SWEEP
        )
    return paths


def _show(swept: Sweep, verdicts: list[Verdict], regressions: Regressions, title: str) -> int:
    """Print the changes and write the page. Return the exit code."""
    folder, code = swept.folder, exit_code(verdicts)
    click.echo("\n".join(render_regressions(regressions)))
    write_html(
        folder / REPORT,
        title,
        swept.results(),
        since=folder / VERDICTS,
        code=code,
        history=folder / HISTORY,
        regressions=regressions,
    )
    click.echo(
        f"results: {display_path(folder)}/verdicts.json, {HISTORY}, {REPORT}; exit code {code}"
    )
    return code


def _shard(text: str) -> tuple[int, int]:
    """Read (number, count) from `1/4`. Raises UsageError."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    number, count = (int(match[1]), int(match[2])) if match else (1, 0)
    if number > count:
        raise UsageError("not a shard", where="--shard", got=text, next="--shard 1/4")
    return number, count


@click.command("history")
@options
def history_command(
    *,
    fact: str | None = argument(),
    patch: str | None = option(metavar="ID", help="Only this patch, or `unpatched`."),
    merged: tuple[Path, ...] = option("--merge", metavar="FILE", help="Take in FILE."),
    folder: Folder,
) -> None:
    """Show a fact over time, or what changed since the last run.

    FACT is WORKLOAD.DEVICE.FACT, such as residual_stack.h200.loads.max.
    """
    path = folder / HISTORY
    if patch and not fact:
        raise UsageError("of which fact?", where="--patch", got=patch, next="FACT --patch ID")
    if not (merged or path.is_file()):
        raise _empty(path)
    make_folder(folder, "--folder")
    with closing(History(path)) as history:
        for other in merged:
            history.merge(other)
        if not history.runs():
            raise _empty(path)
        if fact:
            points = history.series(*_parse_fact(fact), patch)
            if not points:
                raise UsageError(
                    "no such fact in this history", where="history", got=fact, next=_SWEEP
                )
            lines = render_series(points)
        else:
            lines = render_regressions(regressions_in(history.recent(_RUNS)))
        click.echo("\n".join(lines))


def _empty(path: Path) -> UsageError:
    return UsageError(
        "no run in this history; another --folder may have one",
        where=display_path(path),
        next=_SWEEP,
    )


def _parse_fact(text: str) -> tuple[str, str, str]:
    """Read (workload, device, fact) from `residual_stack.h200.loads.max`. Raises UsageError."""
    workload, _, rest = text.partition(".")
    device, _, name = rest.partition(".")
    if not name:
        raise UsageError(
            "not WORKLOAD.DEVICE.FACT",
            where="history",
            got=text,
            next="residual_stack.h200.loads.max",
        )
    return workload, device, name
