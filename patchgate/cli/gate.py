"""`patchgate gate`: judge one patch; `patchgate report`: show its last run again."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from patchgate import __version__
from patchgate.cli.options import (
    ABOVE_0,
    AT_LEAST_1,
    environments_of,
    folder_option,
    problem_option,
    problems_of,
    row_option,
    rows_of,
    torch_option,
)
from patchgate.cli.write_html import REPORT, SWEEP_HISTORY, write_html
from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import make_folder, make_results_folder, write_atomically
from patchgate.model.paths import DEVICES, shown
from patchgate.model.records import Verdict, exit_code
from patchgate.model.text import did_you_mean
from patchgate.report.commands import is_through_nox
from patchgate.report.coverage import answer_lines
from patchgate.report.github import render_annotations
from patchgate.report.junit import render_junit
from patchgate.report.markdown import render_markdown
from patchgate.report.progress import RunProgress
from patchgate.report.terminal import show_run, stdout_console, to_stdout
from patchgate.report.view import view
from patchgate.runner.run import NAME, VERDICTS, Limits, Run, load_run, load_times, load_verdicts
from patchgate.runs.gate import judge_patch
from patchgate.runs.run_results import results_of

# What later runs find again: below the folder that the command is typed in, wherever the results go.
_KEPT = Path(".patchgate")


@click.command()
@click.argument("patch", type=click.Path())
@torch_option
@row_option
@problem_option
@click.option("--device", "devices", multiple=True, metavar="NAME", help="Device profiles; default: h200 and cpu.")
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="Only these workloads.")
@click.option("--with", "others", multiple=True, type=click.Path(), help="A patch installed beside PATCH.")
@click.option("--strict-new", is_flag=True, help="Red where no facts are recorded yet; otherwise a grey note.")
@click.option("--nightly", is_flag=True, help="Every workload, not only those of pre-merge; kernels are compiled too.")
@click.option("--time-limit", default=60.0, show_default=True, type=ABOVE_0, help="Seconds that one case may take.")
@click.option("--memory-limit", default=1024, show_default=True, type=AT_LEAST_1, help="MiB one case may add to torch.")
@click.option("-n", "workers", default=2, show_default=True, type=AT_LEAST_1, help="Cases run at the same time.")
@click.option("-v", "--verbose", is_flag=True, help="A line for each cell as soon as it is judged.")
@folder_option
def gate(
    patch: str,
    torches: tuple[str, ...],
    rows: tuple[str, ...],
    problems: tuple[str, ...],
    devices: tuple[str, ...],
    workloads: tuple[str, ...],
    others: tuple[str, ...],
    strict_new: bool,
    nightly: bool,
    time_limit: float,
    memory_limit: int,
    workers: int,
    verbose: bool,
    folder: str,
) -> NoReturn:
    """Judge PATCH: a .py file, a diff of torch, or a folder with patch.py and patch.toml. FILE::FUNCTION calls it.

    The releases of --torch, by default those that are judged before a merge, are installed once, in the user's cache.

    Exit codes: 0 nothing red, 1 red, 2 usage, 3 nothing judged, 4 only trouble with the machine (try again).
    """
    loaded, *_ = [load_patch(Path(each)) for each in (patch, *others)]
    devices = _known(devices, [file.stem for file in DEVICES.glob("*.toml")], "device") or ("h200", "cpu")
    workloads = _known(workloads, list(workloads_with(Path(patch))), "workload")
    environments, missing = rows_of(rows), problems_of(problems)  # asked last: it starts interpreters
    made = not (environments or missing)
    if made:
        environments, missing = environments_of(torches)
    run = Run(
        folder=str(Path(folder).resolve()),
        patch=str(Path(patch).resolve()),
        problems=missing,
        devices=devices,
        workloads=workloads,
        rows=environments,
        others=tuple(str(Path(other).resolve()) for other in others),
        strict_new=strict_new,
        nightly=nightly,
        limits=Limits(seconds=time_limit, bytes=memory_limit << 20),
        shelf=str(_KEPT.resolve() / "unpatched"),
        binaries=str(_KEPT.resolve() / "cpp"),
        by_release=is_through_nox() or made,
    )
    for device in run.devices:
        load_profile(device)
    make_results_folder(Path(run.folder), "--folder", mark=NAME)
    _show(run, _judge(run, loaded.id, workers, cells=verbose))


@click.command()
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where the page goes.")
@folder_option
def report(html: Path | None, folder: str) -> NoReturn:
    """Show the last run again, and write its reports anew."""
    run = load_run(Path(folder) / NAME)
    _show(run, load_verdicts(Path(folder)), html)


def _judge(run: Run, patch: str, workers: int, *, cells: bool) -> list[Verdict]:
    """Judge, and show how far it is."""
    torches = ", ".join(run.torches)
    click.echo(f"patchgate {__version__}: {patch} on torch {torches}; devices {', '.join(run.devices)}")
    before, waits = load_times(Path(run.folder)), f"starting torch {torches}"
    with RunProgress(stdout_console(), before, workers=workers, cells=cells, waits=waits) as progress:
        return judge_patch(run, workers=workers, progress=progress)


def _show(run: Run, verdicts: list[Verdict], html: Path | None = None) -> NoReturn:
    """Print and write every report of a run, the page to `html` if it is given, and end with its exit code."""
    folder = Path(run.folder)
    make_folder(folder, "--folder")
    make_folder((html or folder / REPORT).parent, "--html")
    patch = load_patch(Path(run.patch))
    title = " ".join(filter(None, (patch.id, patch.claims.title, patch.claims.source)))
    shown_view = view(verdicts, run.torches)
    code, html = exit_code(verdicts), html or folder / REPORT
    answer = answer_lines(run, verdicts, shown_view, workloads_with(Path(run.patch)), code)
    answer.insert(-1, f"results: {shown(folder)}/verdicts.json, junit.xml, summary.md; {shown(html)}")
    to_stdout(lambda console: show_run(console, title, shown_view, answer))
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
    judged = [results_of(run, patch, verdicts)]
    write_html(html, patch.id, judged, since=folder / VERDICTS, code=code, history=SWEEP_HISTORY)
    sys.exit(code)


def _known(given: tuple[str, ...], known: list[str], what: str) -> tuple[str, ...]:
    for name in given:
        if name not in known:
            advice = did_you_mean(name, known) or f"one of: {', '.join(sorted(known))}"
            raise UsageError(f"no {what} `{name}`", where=f"--{what}", got=name, next=advice)
    return given
