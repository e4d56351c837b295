"""`patchgate fuzz`: random programs, compiled with a patch and without it."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click

from patchgate.checks.samples import CODES
from patchgate.cli.main import say, show_failure
from patchgate.cli.options import AT_LEAST_1, Duration, Rows, Torches, Workers, own_folder
from patchgate.cli.parameters import argument, option, options
from patchgate.cli.report import show
from patchgate.inputs.project import find_project
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import MACHINE, exit_code
from patchgate.model.policy import Kind
from patchgate.report.next_commands import typed
from patchgate.runner.leftovers import temporary_files_below
from patchgate.runner.results_folder import results_folder
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import Servers, running_servers
from patchgate.runs.fuzz import Unjudged, differences_of_torch, judged_round, seeds
from patchgate.runs.gate import JudgedRun, planned_run
from patchgate.runs.plan import environments_for, load_patches


@click.command()
@options
def fuzz(
    *,
    patch: Path | None = argument(),
    torches: Torches,
    rows: Rows,
    minutes: float = option(
        default=10.0, type=Duration(0), help="Begin no further round after this time."
    ),
    seed: int = option(default=1, type=AT_LEAST_1, help="The seed of the first round."),
    workers: Workers,
    folder: Path = own_folder(".patchgate/fuzz", "the last round's results"),
) -> None:
    """Compile random programs with PATCH, until one differs.

    A round has some seventy programs in inference and in training, many of which call operators
    that PATCH mentions. They are compared with eager mode and with torch without PATCH. Without
    PATCH: torch alone is compared with eager mode.

    Exit codes: 0 nothing differs, 1 red, 2 usage, 3 PATCH changes nothing that programs meet, 4
    trouble with the machine, or a missing package.
    """
    if patch:
        (project, _), loaded = load_patches([patch], ())
    else:
        project, loaded = find_project(Path.cwd()), {}
    environments = environments_for(loaded.values(), project, rows, (), torches, False, say)
    python, missing = environments
    if not patch and (missing or not python):
        got = "; ".join(missing.values())
        raise UsageError("no torch to compile with", where="--torch", got=got, next="--row")
    settings = Run(
        folder=str(folder),
        patch="",
        rows=python,
        project=project,
        devices=project.judged_devices,
        checks=("samples",),
        by_release=not rows,
    )
    rounds = (replace(settings, seed=number) for number in seeds(seed, minutes))
    with results_folder(folder, "--folder"), temporary_files_below(), ExitStack() as stack:
        # There is no interpreter if the patch cannot be parsed.
        servers = stack.enter_context(running_servers(python)) if all(python.values()) else None
        for each in rounds:
            if patch:
                planned = planned_run(patch, loaded[patch], each, environments, alone=True)
                code = _show_round(judged_round(planned, workers, servers, show_failure))
            else:
                assert servers
                code = _show_differences(each, servers)
            if code:
                sys.exit(code)


def _show_round(judged: JudgedRun) -> int:
    """Show a round that is not green, or say how many programs were compared. Return the exit
    code.
    """
    code = exit_code(judged.verdicts)
    if code:
        show([judged], Path(judged.run.folder), "text")
        say(f"the same programs again: {typed(judged.run.again)}")
        return code
    codes = {each.code for each in CODES}
    found = [verdict for verdict in judged.verdicts if verdict.code in codes]
    for verdict in found:
        say(f"seed {judged.run.seed}, torch {verdict.torch}: {verdict.actual.partition(';')[0]}")
    if not found:
        say("the patch replaces nothing that a random program calls")
    return 0 if any(verdict.kind is Kind.PASS for verdict in found) else 3


def _show_differences(run: Run, servers: Servers) -> int:
    """Print the programs that torch alone compiles wrongly. Return the exit code."""
    differ = False
    for torch in run.torches:
        try:
            compared, texts = differences_of_torch(run, torch, servers)
        except Unjudged as error:
            say(f"seed {run.seed}, torch {torch}: not judged: {error}")
            return MACHINE
        say(f"seed {run.seed}, torch {torch}: {compared} programs compared")
        for text in texts:
            differ = True
            click.echo(f"seed {run.seed}, torch {torch}: {text}")
    return int(differ)
