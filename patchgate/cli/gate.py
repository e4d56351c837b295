"""`patchgate gate`: judge one patch; `patchgate report`: show its last run again."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import click

from patchgate import __version__
from patchgate.checks.framework.find_checks import all_checks
from patchgate.checks.framework.patch_outcome import does_not_run
from patchgate.cli.main import show_failure
from patchgate.cli.options import (
    Devices,
    Folder,
    Nightly,
    Problems,
    Rows,
    Torches,
    Workers,
    Workloads,
    chosen_environments,
    memory_limit,
    only_known,
    pairs_of,
    time_limit,
    with_models,
)
from patchgate.cli.parameters import argument, option, options
from patchgate.cli.watch import Judge, Plan, PlannedRun, Show, judge_after_edits
from patchgate.cli.write_html import REPORT, SWEEP_HISTORY, write_html
from patchgate.inputs.devices import device_names, load_profile
from patchgate.inputs.manifest import Patch
from patchgate.inputs.models import model_names
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import Unreadable, parse, read_source
from patchgate.inputs.project import Project, find_project, project_around
from patchgate.inputs.toml import tables_below
from patchgate.inputs.workloads import premerge_workloads, workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import MACHINE, exit_code
from patchgate.model.files import HELD, make_folder, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Cause, Failure, Verdict
from patchgate.report.formats import FORMATS, JudgedPatch, write_files
from patchgate.report.next_commands import gate_command, is_through_nox
from patchgate.report.progress import RunProgress
from patchgate.report.terminal import stdout_console
from patchgate.runner.cache import prune
from patchgate.runner.leftovers import temporary_files_below
from patchgate.runner.results_folder import (
    Journal,
    delete,
    put_aside,
    results_folder,
    save_results,
    times_before,
)
from patchgate.runner.run_settings import (
    VERDICTS,
    Limits,
    Run,
    default_releases,
    load_verdicts,
    runs_in,
    save_run,
    source_of_releases,
)
from patchgate.runner.start_server import Servers, running_servers
from patchgate.runs.gate import ended_by, judge_patch, leave_partial
from patchgate.runs.read_results import results_of

# What later runs find again: below the folder that the command is typed in, wherever the results
# go.
_KEPT = Path(".patchgate")
# Of each sort; beyond that what was used longest ago goes.
_KEPT_BYTES = 2 << 30
# In another interpreter: only read, never run.
_COMPILE = "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"
#: (interpreters, why there is none) by torch release.
Environments = tuple[dict[str, str], dict[str, str]]
Form = Annotated[
    str,
    option(
        "--format",
        type=click.Choice([*FORMATS]),
        default="text",
        show_default=False,
        help="Output format; sarif is for code scanning.",
    ),
]


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
        "--check", metavar="NAME,...", help="Only these checks or groups (docs/verdicts.md)."
    ),
    others: tuple[str, ...] = option("--with", type=click.Path(), help="Also install this patch."),
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
    verbose: bool = option(
        "-v", "--verbose", help="Print a line for each cell (a check of a workload)."
    ),
    form: Form,
    folder: Folder,
) -> NoReturn:
    """Judge a patch on one or more torch releases.

    PATCH is a .py file, a diff of torch, a folder with patch.py and patch.toml, or FILE::FUNCTION,
    which is called.
    Without PATCH: every patch of the table [tool.patchgate], on its releases or --torch, which are
    installed once.
    Exit codes: 0 nothing red, 1 red, 2 usage, 3 nothing judged, 4 only trouble with the machine
    (try again).
    """
    chosen: list[Environments] = []  # once: their servers stay

    def plan() -> list[PlannedRun]:
        (project, names), loaded = _load_patches(patches, workloads)
        settings = Run(
            folder=folder,
            patch="",
            rows={},
            project=project,
            devices=_known_devices(project, list(loaded), devices, names),
            workloads=names,
            checks=_known_checks(checks),
            others=tuple(map(_installable, others)),
            strict=strict,
            nightly=nightly,
            require_sandbox=require_sandbox,
            limits=Limits(seconds=time_limit, bytes=memory_limit << 20),
            by_release=is_through_nox() or not (rows or problems),
        )
        chosen[:] = chosen or [
            _environments(loaded.values(), project, rows, problems, torches, watch)
        ]
        return [
            _run_of(path, patch, settings, *chosen[0], alone=len(loaded) == 1)
            for path, patch in loaded.items()
        ]

    judge = partial(_judge_all, folder=Path(folder), workers=workers, cells=verbose, form=form)
    sys.exit(
        _carry_out(
            plan, judge, partial(_show, folder=Path(folder), form=form), Path(folder), watch=watch
        )
    )


def _environments(
    patches: Collection[Patch],
    project: Project,
    rows: tuple[str, ...],
    problems: tuple[str, ...],
    torches: tuple[str, ...],
    watch: bool,
) -> Environments:
    """The interpreters by release; none is made for patches that do not parse."""
    given = pairs_of(rows, "--row")
    if not (watch or problems) and all(_syntax_failure(patch, given.values()) for patch in patches):
        return given or dict.fromkeys(torches or default_releases(project), ""), {}
    return chosen_environments(project, rows, problems, torches)


def _carry_out(plan: Plan, judge: Judge, show: Show, folder: Path, *, watch: bool) -> int:
    """The exit code.

    Whatever ends this run, it never shows what an earlier one has left in its folder.
    """
    with results_folder(folder, "--folder"), temporary_files_below():
        return (judge_after_edits if watch else _judge_once)(plan, judge, show)


def _judge_once(plan: Plan, judge: Judge, show: Show) -> int:
    runs = plan()
    # They run no patch themselves: to start torch once is enough for several.
    shared = len(runs) > 1 and all(runs[0].run.rows.values())
    with running_servers(runs[0].run.rows) if shared else contextlib.nullcontext() as servers:
        judged = judge(runs, servers)
    return show(judged)


def _run_of(
    path: Path,
    patch: Patch,
    settings: Run,
    rows: dict[str, str],
    problems: dict[str, str],
    *,
    alone: bool,
) -> PlannedRun:
    run = replace(
        settings,
        folder=str(Path(settings.folder, "." if alone else patch.id).resolve()),
        patch=str(path.resolve()),
        rows=rows,
        problems=problems,
        premerge=premerge_workloads(workloads_with(path, settings.project), settings.project),
        shared_cache=str(_KEPT.resolve() / "unpatched"),
        patched_cache=str(_KEPT.resolve() / "patched"),
        binaries=str(_KEPT.resolve() / "cpp"),
    )
    return PlannedRun(run, patch)


def _judge_all(
    runs: Sequence[PlannedRun],
    servers: Servers | None,
    *,
    folder: Path,
    workers: int,
    cells: bool,
    form: str,
) -> list[JudgedPatch]:
    """The verdicts of each run; once one is ended by a signal, or by a fault, the others are not
    begun.
    """
    _empty(folder, runs)
    _keep_out_of_git(_KEPT)
    judged: list[JudgedPatch] = []
    file = None if form == "text" else sys.stderr
    for run, patch in runs:
        try:
            verdicts = _judge(run, patch, servers, workers, cells=cells, file=file)
            judged.append(JudgedPatch(run=run, patch=patch, verdicts=verdicts))
        except UsageError:
            raise
        except (KeyboardInterrupt, Exception) as error:
            show_failure(error)
            if not (Path(run.folder) / VERDICTS).is_file():  # it could not be written either
                sys.exit(MACHINE)
            judged.append(
                JudgedPatch(run=run, patch=patch, verdicts=load_verdicts(Path(run.folder)))
            )
            for rest, its_patch in runs[len(judged) :]:
                verdicts = leave_partial(rest, its_patch, ended_by(error))
                judged.append(JudgedPatch(run=rest, patch=its_patch, verdicts=verdicts))
            break
    for name, pattern in (("unpatched", "*/*"), ("patched", "*/*"), ("cpp", "*/*-*")):
        prune(_KEPT / name, pattern, _KEPT_BYTES)
    return judged


def _keep_out_of_git(folder: Path) -> None:
    """Nothing below the folder belongs into a repository: hundreds of megabytes, made anew by the
    next run.
    """
    ignore = folder / ".gitignore"
    if not ignore.exists():
        folder.mkdir(exist_ok=True)
        write_atomically(ignore, "*\n")


def _installable(patch: str) -> str:
    """Its whole path. Raises UsageError for what is no patch."""
    load_patch(Path(patch))
    return str(Path(patch).resolve())


def _judge(
    run: Run,
    patch: Patch,
    servers: Servers | None,
    workers: int,
    *,
    cells: bool,
    file: TextIO | None,
) -> list[Verdict]:
    """Judge, and show how far it is."""
    click.echo(f"patchgate {__version__}: {_first_line(run, patch)}", file=file)
    if servers and not servers.are_serving():  # a patch before has ended one
        servers = None
    failure = _syntax_failure(patch, run.rows.values())
    if failure:
        put_aside(Path(run.folder))
        save_run(run)
        cases = [Case(torch=torch, patch=patch.id) for torch in run.torches]
        return save_results(
            run, [], [does_not_run(case, failure, patch, run.again) for case in cases]
        )
    put_aside(Path(run.folder))  # a judgement of `--watch` has left results
    before, waits = times_before(Path(run.folder)), f"starting torch {', '.join(run.torches)}"
    with RunProgress(
        stdout_console(file), before, workers=workers, cells=cells, waits=waits
    ) as progress:
        return judge_patch(run, patch, workers=workers, progress=progress, servers=servers)


def _first_line(run: Run, patch: Patch) -> str:
    """The patch, how it is installed, its releases, and where these come from."""
    calls = () if patch.manifest else filter(None, (*patch.claims.apply, patch.claims.scope))
    installed = "".join(f", installed by `{call}`" for call in calls)
    is_default = run.by_release and {*run.torches} == {*default_releases(run.project)}
    source = source_of_releases(run.project) if is_default else "as given"
    return (
        f"{patch.id}{installed} on torch {', '.join(run.torches)} ({source}); devices "
        f"{', '.join(run.devices)}"
    )


def _syntax_failure(patch: Patch, pythons: Iterable[str]) -> Failure | None:
    """Why no Python that is asked for can read the patch; None of a diff, which is no Python."""
    if patch.diff:
        return None
    try:
        parse(read_source(Path(patch.path)))
        return None
    except Unreadable as error:
        where, signature = (
            f"{display_path(patch.path)}:{error.line}",
            f"SyntaxError: {error.reason}",
        )
    # Another Python than this one may know newer syntax.
    commands = [[python, "-I", "-c", _COMPILE, patch.path] for python in pythons if python]
    if any(
        subprocess.run(command, capture_output=True, check=False).returncode == 0
        for command in commands
    ):
        return None
    return Failure(cause=Cause.RAISED, stage="start", signature=signature, where=where)


def _empty(folder: Path, runs: Sequence[PlannedRun]) -> None:
    """Remove what an earlier run of other patches has left; each run empties its own folder
    itself.
    """
    own = {Path(planned.run.folder) for planned in runs}
    for path in () if folder.resolve() in own else set(folder.resolve().iterdir()) - own:
        if path.name != HELD:
            delete(path)


def _load_patches(
    given: Sequence[Path], workloads: tuple[str, ...]
) -> tuple[tuple[Project, tuple[str, ...]], dict[Path, Patch]]:
    """The patches that `with_models` gives, and the given patches, or else those of the table.

    Raises UsageError for no patch, or two that are called alike.
    """
    project = project_around(given[0]) if given else find_project(Path.cwd())
    paths = list(given) or project.patch_paths()
    if not paths:
        got = "no PATCH" if project.table is None else "no PATCH, and no `patches` in the table"
        advice = (
            'patchgate gate path/to/patch.py; or patches = ["path/to/*.py"] in '
            "[tool.patchgate] of pyproject.toml"
        )
        below = (
            [display_path(table.parent) for table in tables_below(Path.cwd())]
            if project.table is None
            else []
        )
        if below:
            advice = (
                f"this repository has tables below: cd {below[0]} && patchgate gate; also "
                f"{', '.join(below[1:])}"
            )
        raise project.fault("patches", "no patch to judge", got, advice.removesuffix("; also "))
    loaded = {path: load_patch(path) for path in paths}
    named: dict[str, Path] = {}
    for path, patch in loaded.items():
        if project_around(path).root != project.root:
            got = f"{display_path(project.root)} is that of {display_path(paths[0])}"
            raise UsageError(
                "a patch of another project",
                where=display_path(path),
                got=got,
                next=gate_command(path),
            )
        if patch.id in named:
            got, advice = (
                f"{display_path(named[patch.id])} is `{patch.id}` too",
                "call one of the two otherwise",
            )
            raise UsageError(
                f"two patches `{patch.id}`: golden tells them apart by name",
                where=display_path(path),
                got=got,
                next=advice,
            )
        named[patch.id] = path
    return with_models(project, workloads), loaded


@click.command()
@options
def report(
    *,
    html: Path | None = option(
        dir_okay=False,
        metavar="FILE",
        help="Where the page goes.",
    ),
    form: Form,
    folder: Folder,
) -> NoReturn:
    """Show the last run again, and write its reports again."""
    judged = [_judged_before(run) for run in runs_in(Path(folder))]
    sys.exit(_show(judged, Path(folder), form, html))


def _judged_before(run: Run) -> JudgedPatch:
    """The verdicts that a run left; of a run whose process was killed, those that it had
    reached.
    """
    folder, patch = Path(run.folder), load_patch(Path(run.patch))
    if Journal(folder).cells() and not (folder / VERDICTS).is_file():
        verdicts = leave_partial(run, patch, "the process of the run was killed")
    else:
        verdicts = load_verdicts(folder)
    return JudgedPatch(run=run, patch=patch, verdicts=verdicts)


def _show(judged: Sequence[JudgedPatch], folder: Path, form: str, html: Path | None = None) -> int:
    """Write every report of a run, the page to `html` if it is given, and print it; its exit
    code.
    """
    html = html or folder / REPORT
    make_folder(folder, "--folder")
    make_folder(html.parent, "--html")
    code = exit_code([verdict for each in judged for verdict in each.verdicts])
    with _uninterrupted():
        for each in judged:
            write_files(each)
        results = [
            replace(results_of(each.run, each.patch, each.verdicts), quick_look=each.quick_look)
            for each in judged
        ]
        since, title = (
            Path(judged[0].run.folder) / VERDICTS,
            ", ".join(each.patch.id for each in judged),
        )
        write_html(html, title, results, since=since, code=code, history=SWEEP_HISTORY)
    FORMATS[form](judged, html)
    if form != "text" or len(judged) > 1:
        count = "1 patch" if len(judged) == 1 else f"{len(judged)} patches"
        click.echo(
            f"{count}, results below {display_path(folder)}; exit code {code}", err=form != "text"
        )
    return code


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """All is judged within it, and written in a moment: a signal has nothing to end."""
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _known_devices(
    project: Project, patches: Sequence[Path], given: tuple[str, ...], workloads: tuple[str, ...]
) -> tuple[str, ...]:
    """The devices that are given, else those of the table.

    Raises UsageError for an unknown one, or workload.
    """
    project.check_profiles()
    known = device_names(project.profiles)
    names = only_known(given, known, "device", "--device")
    names = names or only_known(project.judged_devices, known, "device", project.where("devices"))
    for name in names:
        load_profile(name, project.profiles)
    for path in patches:
        known = [*workloads_with(path, project), *model_names()]
        # Some checks bring a workload of their own.
        only_known(
            workloads,
            known + [each.workload for each in all_checks().values() if each.workload],
            "workload",
            "--workload",
        )
        only_known(project.chosen_workloads, known, "workload", project.where("workloads"))
    return names


def _known_checks(given: Sequence[str]) -> tuple[str, ...]:
    """The names of checks and families that are given, with commas between them or one by one."""
    checks = all_checks().values()
    known = dict.fromkeys([*(check.family for check in checks), *(check.name for check in checks)])
    return only_known(
        tuple(name.strip() for text in given for name in text.split(",")),
        [*known],
        "check",
        "--check",
    )
