"""`patchgate fuzz`: random programs, compiled with a patch and without it."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import click

from patchgate.checks.samples import CODES
from patchgate.cli.main import say, show_failure
from patchgate.cli.options import AT_LEAST_1, Rows, Torches, Workers, own_folder
from patchgate.cli.parameters import argument, option, options
from patchgate.cli.report import show
from patchgate.inputs.project import find_project
from patchgate.model.exit_code import exit_code
from patchgate.report.next_commands import typed
from patchgate.runner.leftovers import temporary_files_below
from patchgate.runner.results_folder import results_folder
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import Servers, running_servers
from patchgate.runs.fuzz import judged_round, round_of_torch
from patchgate.runs.gate import PlannedRun, planned_run
from patchgate.runs.plan import environments_for, load_patches


@click.command()
@options
def fuzz(
    *,
    patch: Path | None = argument(),
    torches: Torches,
    rows: Rows,
    minutes: float = option(
        default=10.0, type=click.FloatRange(0), help="Begin no further round after this time."
    ),
    seed: int = option(default=1, type=AT_LEAST_1, help="The seed of the first round."),
    workers: Workers,
    folder: Path = own_folder(".patchgate/fuzz", "the last round's results"),
) -> None:
    """Compile random programs with PATCH, until one differs.

    A round has some seventy programs, which mostly call operators that PATCH mentions, in inference
    and in training. They are compared with eager mode and with torch without PATCH. Without PATCH:
    torch alone is compared with eager mode, in every round.

    Exit codes: 0 nothing differs, 1 red, 2 usage, 3 PATCH changes nothing that programs meet, 4
    trouble with the machine, or a missing package.
    """
    loaded = None if patch is None else load_patches([patch], ())
    project = loaded[0][0] if loaded else find_project(Path.cwd())
    patches = loaded[1] if loaded else {}
    environments = environments_for(patches.values(), project, rows, (), torches, False, say)
    settings = Run(
        folder=str(folder),
        patch="",
        rows=environments[0],
        project=project,
        checks=("samples",),
        by_release=not rows,
    )
    rounds = (replace(settings, seed=number) for number in _seeds(seed, minutes))
    with (
        results_folder(folder, "--folder"),
        temporary_files_below(),
        running_servers(environments[0]) as servers,
    ):
        if not patches:
            sys.exit(max([_compare_torch(each, servers) for each in rounds]))
        for path, loaded_patch in patches.items():
            planned = (
                planned_run(path, loaded_patch, each, environments, alone=True) for each in rounds
            )
            sys.exit(_first_red(planned, workers, servers))


def _seeds(first: int, minutes: float) -> Iterator[int]:
    """Numbers from the first on, until the time is over; at least one."""
    ends = time.monotonic() + 60 * minutes
    for number in itertools.count(first):
        yield number
        if time.monotonic() >= ends:
            return


def _first_red(rounds: Iterable[PlannedRun], workers: int, servers: Servers) -> int:
    """Judge rounds until one is red, and show that one. Return the exit code."""
    codes = {each.code for each in CODES}
    for planned in rounds:
        judged = judged_round(planned, workers, servers, show_failure)
        code = exit_code(judged.verdicts)
        if code:
            show([judged], Path(judged.run.folder), "text")
            say(f"the same programs again: {typed(judged.run.again)}")
            return code
        found = [verdict for verdict in judged.verdicts if verdict.code in codes]
        if not found or any(verdict.code == "PG515" for verdict in found):
            say("no random program meets what the patch changes, or none could be judged")
            return 3
        for verdict in found:
            counts = verdict.actual.partition(";")[0]
            say(f"seed {judged.run.seed}, torch {verdict.torch}: {counts}")
    return 0


def _compare_torch(run: Run, servers: Servers) -> int:
    """Print each program that torch alone compiles to other results than eager mode has. Return the
    exit code.
    """
    differs = False
    for torch in run.torches:
        metrics = round_of_torch(run, torch, servers)
        say(f"seed {run.seed}, torch {torch}: {metrics['judged']} programs compared")
        for each in metrics["differing"]:
            differs = True
            click.echo(f"seed {run.seed}, torch {torch}: {each['sample']}: {each['what']}")
    return int(differs)
