"""The command's door: `patchgate gate | explain | accept | report | record`.

Decides options and exit codes (DESIGN: 0 to 4). Refuses to hold any logic of
its own; a UsageError ends here as a message and exit code 2.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from patchgate import __version__
from patchgate.checks.codes import CODES
from patchgate.cli import pages
from patchgate.cli.bisect import ask, bisect
from patchgate.cli.comment import comment
from patchgate.cli.fidelity import fidelity
from patchgate.cli.index import index_group
from patchgate.cli.init import init
from patchgate.cli.lint import lint
from patchgate.cli.options import ABOVE_0, AT_LEAST_1, own_row, problem_option, problems_of, row_option, rows_of
from patchgate.cli.parts import parts
from patchgate.cli.sweep import history_command, sweep
from patchgate.inputs import accept
from patchgate.inputs import record_device as record
from patchgate.inputs.devices import load_profile
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import make_emptied, make_folder, write_atomically
from patchgate.model.paths import DEVICES, GOLDEN, shown
from patchgate.model.records import Verdict, exit_code
from patchgate.model.text import escape_control
from patchgate.report.catalogue import render_catalogue
from patchgate.report.github import render_annotations
from patchgate.report.junit import render_junit
from patchgate.report.markdown import render_markdown
from patchgate.report.terminal import show_code, show_run, to_stdout
from patchgate.report.view import view
from patchgate.runner.run import FOLDER, NAME, VERDICTS, Limits, Run, load_run, load_verdicts
from patchgate.runs.launch import launch
from patchgate.runs.run_results import results_of

# What later runs find again: below the folder that the command is typed in, wherever the results go.
_KEPT = Path("build")
Command = TypeVar("Command", bound=Callable[..., Any])
folder_option = click.option(
    "--folder",
    default=FOLDER,
    show_default=True,
    type=click.Path(file_okay=False),
    help="Where a run leaves its results.",
)


def main() -> NoReturn:
    """The console script."""
    end_by_exit_code(cli, "patchgate")


def end_by_exit_code(command: click.Command, name: str) -> NoReturn:
    """Run a command and exit: bad input is a message and exit code 2, never a traceback."""
    try:
        command.main(prog_name=name, standalone_mode=False)
    except UsageError as error:
        click.echo(escape_control(f"error: {error}"), err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted: a part of a run is no result\n  next: the same command again", err=True)
        sys.exit(130)
    sys.exit(0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """The gate that every patch to the PyTorch compiler passes before merge."""


@cli.command()
@click.argument("patch", type=click.Path())
@row_option
@problem_option
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Device profiles; default: h200 and cpu.")
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="Only these workloads.")
@click.option("--with", "others", multiple=True, type=click.Path(exists=True), help="A patch installed beside PATCH.")
@click.option("--nightly", is_flag=True, help="Every workload, not only those of pre-merge; kernels are compiled too.")
@click.option("--time-limit", default=60.0, show_default=True, type=ABOVE_0, help="Seconds that one case may take.")
@click.option("--memory-limit", default=1024, show_default=True, type=AT_LEAST_1, help="MiB one case may add to torch.")
@click.option("-n", "workers", default=2, show_default=True, type=AT_LEAST_1, help="Cases run at the same time.")
@folder_option
def gate(
    patch: str,
    rows: tuple[str, ...],
    problems: tuple[str, ...],
    devices: tuple[str, ...],
    workloads: tuple[str, ...],
    others: tuple[str, ...],
    nightly: bool,
    time_limit: float,
    memory_limit: int,
    workers: int,
    folder: str,
) -> NoReturn:
    """Judge PATCH (a folder with patch.py and patch.toml, or a bare .py).

    Without --row the torch of this interpreter is used; `nox -s gate` makes the pre-merge rows.

    Exit codes: 0 nothing red, 1 red, 2 usage, 3 nothing judged, 4 only trouble with the machine (try again).
    """
    loaded = load_patch(Path(patch))
    run = Run(
        folder=str(Path(folder).resolve()),
        patch=str(Path(patch).resolve()),
        problems=problems_of(problems),
        devices=_known(devices, [file.stem for file in DEVICES.glob("*.toml")], "device") or ("h200", "cpu"),
        workloads=_known(workloads, list(workloads_with(Path(patch))), "workload"),
        rows=rows_of(rows) or ({} if problems else own_row()),  # asked last: it starts interpreters
        others=tuple(str(Path(other).resolve()) for other in others),
        nightly=nightly,
        limits=Limits(seconds=time_limit, bytes=memory_limit << 20),
        shelf=str(_KEPT.resolve() / "unpatched"),
        binaries=str(_KEPT.resolve() / "cpp"),
    )
    for device in run.devices:
        load_profile(device)
    make_emptied(Path(run.folder), "--folder", mark=NAME)
    torches = ", ".join(run.torches)
    click.echo(f"patchgate {__version__}: {loaded.id} on torch {torches}; devices {', '.join(run.devices)}")
    _show(run, launch(run, workers=workers, quiet=False))


@cli.command()
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where the page goes.")
@folder_option
def report(html: Path | None, folder: str) -> NoReturn:
    """Show the last run again, and write its reports anew."""
    run = load_run(Path(folder) / NAME)
    _show(run, load_verdicts(Path(folder)), html)


@cli.command()
@click.argument("code", required=False)
@click.option("--markdown", is_flag=True, help="All of them as a page: docs/verdicts.md.")
def explain(code: str | None, markdown: bool) -> None:
    """Tell what a verdict code means, why it matters and how to fix it; without CODE, list all."""
    if markdown:
        click.echo("\n".join(render_catalogue(CODES.values())))
        return
    if code is None:
        for known in sorted(CODES.values(), key=lambda c: c.code):
            click.echo(f"{known.code}  {known.title}")
        return
    if code.upper() not in CODES:
        close = difflib.get_close_matches(code.upper(), CODES, n=1)
        advice = f"patchgate explain {close[0]}" if close else "patchgate explain   (lists all)"
        raise UsageError("no such code", where="explain", got=code, next=advice)
    to_stdout(lambda console: show_code(console, CODES[code.upper()]))


@cli.command("accept")
@click.option("--reason", metavar="TEXT", help="Why golden changes; goes into golden/HISTORY.md.")
@click.option("--golden", default=str(GOLDEN), type=click.Path(file_okay=False), help="The folder of golden files.")
@folder_option
def accept_command(reason: str | None, golden: str, folder: str) -> None:
    """Promote what the last run observed to golden. Nothing is run again."""
    accept.refuse_here(accept.here())
    run = load_run(Path(folder) / NAME)
    changes = accept.plan(run.store, [row.torch for row in load_matrix()], Path(golden))
    if not changes:
        click.echo("golden already says what the last run observed")
        return
    for change in changes:
        click.echo(change.diff)
    accept.carry_out(changes, accept.reason_of(reason), Path(golden))
    click.echo(f"{len(changes)} files below {shown(golden)} changed; read the diff, then commit them")


@cli.command("record")
@click.option("--profile", required=True, metavar="NAME", help="The device profile that the machine's GPU is.")
@folder_option
def record_command(profile: str, folder: str) -> None:
    """Keep what the last run observed on a real GPU (`gate --device cuda`) to compare simulation with."""
    run = load_run(Path(folder) / NAME)
    releases = [row.torch for row in load_matrix()]
    for path in record.keep(run.store, profile, load_profile(profile)["name"], GOLDEN, releases):
        click.echo(f"wrote {shown(path)}")


cli.add_command(comment)
cli.add_command(init)
cli.add_command(parts)
cli.add_command(fidelity)
cli.add_command(lint)
cli.add_command(bisect)
cli.add_command(ask)
cli.add_command(sweep)
cli.add_command(history_command)
cli.add_command(index_group)


def _show(run: Run, verdicts: list[Verdict], html: Path | None = None) -> NoReturn:
    """Print and write every report of a run, the page to `html` if it is given, and end with its exit code."""
    folder = Path(run.folder)
    make_folder(folder, "--folder")
    make_folder((html or folder / pages.NAME).parent, "--html")
    patch = load_patch(Path(run.patch))
    title = " ".join(filter(None, (patch.id, patch.claims.title, patch.claims.source)))
    shown_view = view(verdicts, run.torches)
    to_stdout(lambda console: show_run(console, title, shown_view))
    write_atomically(folder / "junit.xml", render_junit(verdicts))
    markdown = render_markdown(title, shown_view)
    write_atomically(folder / "summary.md", markdown)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(markdown)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        checkout = Path(os.environ.get("GITHUB_WORKSPACE", "")).resolve()
        click.echo("\n".join(render_annotations(shown_view, checkout)))
    code = exit_code(verdicts)
    html = html or folder / pages.NAME
    judged = [results_of(run, patch, verdicts)]
    pages.write_page(html, patch.id, judged, since=folder / VERDICTS, code=code, history=pages.HISTORY)
    if code == 3:
        click.echo("nothing was judged: no workload, device or row was selected")
    click.echo(f"results: {shown(folder)}/verdicts.json, junit.xml, summary.md; {shown(html)}; exit code {code}")
    sys.exit(code)


def _known(given: tuple[str, ...], known: list[str], what: str) -> tuple[str, ...]:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean `{close[0]}`?" if close else f"one of: {', '.join(sorted(known))}"
            raise UsageError(f"no {what} `{name}`", where=f"--{what}", got=name, next=advice)
    return given
