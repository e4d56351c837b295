"""`patchgate gate`: judge one patch; `patchgate report`: show its last run again."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from patchgate import __version__
from patchgate.cli.main import say, show_failure, show_usage_error
from patchgate.cli.options import (
    Devices,
    Folder,
    Nightly,
    Problems,
    Rows,
    Torches,
    Workers,
    Workloads,
    memory_limit,
    time_limit,
)
from patchgate.cli.parameters import argument, option, options
from patchgate.cli.report import Form, show
from patchgate.inputs.manifest import Patch
from patchgate.inputs.torch_range import default_releases, source_of_releases
from patchgate.model.exit_code import is_partial
from patchgate.model.paths import CORPUS
from patchgate.report.formats import JudgedPatch
from patchgate.report.next_commands import is_through_nox
from patchgate.report.progress import RunProgress
from patchgate.report.terminal import show_answer, stdout_console
from patchgate.report.view import changes_of_red
from patchgate.runner.leftovers import temporary_files_below
from patchgate.runner.results_folder import results_folder, seconds_before
from patchgate.runner.run_settings import (
    Limits,
    Run,
)
from patchgate.runs.gate import (
    Environments,
    JudgedRun,
    PlannedRun,
    Turn,
    judge_runs,
    planned_run,
)
from patchgate.runs.plan import (
    devices_here,
    environments_for,
    installable,
    known_checks,
    load_patches,
    requirements_of,
    with_requirements,
)
from patchgate.runs.watch import Judge, Plan, judge_after_edits

_DEMO, _DEMO_TORCH, _DEMO_FOLDER = CORPUS[0] / "vllm-42686", "2.11.0", ".patchgate/demo"
# Enough to show each problem of that patch.
_DEMO_CHECKS = "tokens,cache,compile_cost"


@click.command()
@options
def gate(
    *,
    patches: tuple[Path, ...] = argument(metavar="[PATCH]..."),
    torches: Torches,
    rows: Rows,
    problems: Problems,
    devices: Devices,
    workloads: Workloads,
    checks: tuple[str, ...] = option(
        "--check",
        metavar="NAME,...",
        help="Only these checks or groups; `patchgate explain --markdown` has all.",
    ),
    others: tuple[str, ...] = option("--with", type=click.Path(), help="Also install this patch."),
    requires: tuple[str, ...] = option(
        metavar="REQUIREMENT",
        callback=lambda context, parameter, given: requirements_of(given),
        help="Install this next to torch too, as pip takes it; with --torch.",
    ),
    strict: bool = option(help="Notes are red: what is new, better, unusual or not exercised."),
    nightly: Nightly,
    require_sandbox: bool = option(
        help="Run no patch if a part of the sandbox is missing (PG908)."
    ),
    time_limit: float = time_limit(Limits.seconds),
    memory_limit: int = memory_limit(Limits.bytes >> 20),
    workers: Workers,
    watch: bool = option(
        help="Judge again after each edit of the patch or its project, until Ctrl-C."
    ),
    verbose: bool = option("-v", "--verbose", help="Print a line for each check of each workload."),
    form: Form,
    folder: Folder,
) -> NoReturn:
    """Judge a patch on one or more torch releases.

    PATCH is a .py file, a diff of torch, a folder with patch.py and patch.toml, or FILE::FUNCTION,
    which is called.

    Without PATCH: every patch of the table [tool.patchgate], on its releases or --torch, which are
    installed once.

    Exit codes: 0 nothing red, 1 red, 2 usage, 3 nothing judged, 4 only trouble with the machine,
    or a missing package.
    """
    chosen: list[Environments] = []  # made once, so that their servers keep running

    def plan() -> list[PlannedRun]:
        (project, names), loaded = load_patches(patches, workloads)
        project = with_requirements(project, requires, rows)
        settings = Run(
            folder=folder,
            patch="",
            rows={},
            project=project,
            devices=devices_here(project, list(loaded), devices, names),
            workloads=names,
            checks=known_checks(checks),
            others=tuple(map(installable, others)),
            requires=requires,
            strict=strict,
            nightly=nightly,
            require_sandbox=require_sandbox,
            limits=Limits(seconds=time_limit, bytes=memory_limit << 20),
            by_release=is_through_nox() or not (rows or problems),
        )
        chosen[:] = chosen or [
            environments_for(loaded.values(), project, rows, problems, torches, watch, say)
        ]
        return [
            planned_run(path, patch, settings, chosen[0], alone=len(loaded) == 1)
            for path, patch in loaded.items()
        ]

    judge = _judging(Path(folder), workers, form, verbose=verbose)
    # However this run ends, its folder never shows results of an earlier run.
    with results_folder(Path(folder), "--folder"), temporary_files_below():
        if watch:
            sys.exit(_watch(plan, judge, Path(folder), form))
        sys.exit(show(judge(plan()), Path(folder), form))


@click.command()
@click.pass_context
@options
def demo(context: click.Context, *, rows: Rows) -> None:
    """Judge a real patch that was reverted, in about a minute.

    It is vLLM #42686, judged by a few checks on torch 2.11.0, which is installed if needed.
    """
    say("demo: vLLM #42686, a patch that was merged, and reverted a day later")
    try:
        context.invoke(
            gate,
            patches=(_DEMO,),
            torches=() if rows else (_DEMO_TORCH,),
            rows=rows,
            checks=(_DEMO_CHECKS,),
            folder=_DEMO_FOLDER,
        )
    finally:
        say("next: patchgate gate path/to/your/patch.py; patchgate explain CODE")


def _watch(plan: Plan, judge: Judge, folder: Path, form: str) -> int:
    """Show each judgement and the change that the last edit made, and announce the wait for the
    next edit. Return the last exit code.
    """
    before, code = None, 0
    for judged, files in judge_after_edits(plan, judge, show_usage_error):
        code = show(judged, folder, form)
        verdicts = [verdict for each in judged for verdict in each.verdicts]
        if is_partial(verdicts):
            break
        if before is not None:
            say(f"since the last judgement: {changes_of_red(before, verdicts)}")
        say(f"waiting for an edit of {files} files; Ctrl-C ends, with exit code {code}")
        before = verdicts
    return code


def _progress(
    run: Run, patch: Patch, turn: Turn, *, workers: int, cells: bool, form: str
) -> RunProgress:
    """Print the first line of a run, and return the display of its progress."""
    file = None if form == "text" else sys.stderr
    which = f"{turn}: " if turn.of > 1 else ""
    click.echo(f"patchgate {__version__}: {which}{_first_line(run, patch)}", file=file)
    before = seconds_before(Path(run.folder))
    waits, later = f"starting torch {', '.join(run.torches)}", turn.of - turn.number
    return RunProgress(
        stdout_console(file), before, workers=workers, cells=cells, waits=waits, later=later
    )


def _judging(folder: Path, workers: int, form: str, *, verbose: bool) -> Judge:
    """Return a function that judges runs one after the other and shows their progress."""
    return partial(
        judge_runs,
        folder=folder,
        workers=workers,
        progress=partial(_progress, workers=workers, cells=verbose, form=form),
        ended=partial(_ended, form=form),
        failed=show_failure,
    )


def _ended(judged: JudgedRun, turn: Turn, *, form: str) -> None:
    """Print the answer for a patch, if another patch is judged after it."""
    if turn.number < turn.of:
        console = stdout_console(None if form == "text" else sys.stderr)
        show_answer(console, f"{turn}, {judged.patch.id}", JudgedPatch(**judged._asdict()).view)


def _first_line(run: Run, patch: Patch) -> str:
    """The patch, the calls that install it, its releases with their source, and its devices."""
    calls = () if patch.manifest else filter(None, (*patch.claims.apply, patch.claims.scope))
    installed = "".join(f", installed by `{call}`" for call in calls)
    is_default = run.by_release and {*run.torches} == {*default_releases(run.project)}
    source = source_of_releases(run.project) if is_default else "as given"
    return (
        f"{patch.id}{installed} on torch {', '.join(run.torches)} ({source}); devices "
        f"{', '.join(run.devices)}"
    )
