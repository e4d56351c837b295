"""`patchgate report` shows the last run of a gate again, and `patchgate comment` shows results of
other machines. This module also writes the reports of a gate and of a sweep.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Annotated, NoReturn

import click

from patchgate import __version__
from patchgate.cli.options import ResultsFolder
from patchgate.cli.parameters import argument, option, options
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import exit_code
from patchgate.model.files import make_folder, write_atomically
from patchgate.model.git import last_commit
from patchgate.model.paths import display_path
from patchgate.model.results import Regressions
from patchgate.model.text import counted, time_text
from patchgate.report.comment import render_comment
from patchgate.report.formats import FORMATS, JudgedPatch, write_files
from patchgate.report.html.page_data import Page
from patchgate.report.html.page_file import render_html
from patchgate.report.next_commands import typed
from patchgate.runner.run_results import RunResults
from patchgate.runner.run_settings import VERDICTS, runs_in
from patchgate.runs.accept import is_edited
from patchgate.runs.gate import JudgedRun, judged_before
from patchgate.runs.history.store import History
from patchgate.runs.read_results import results_of

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
REPORT = "report.html"
# A sweep keeps its history here; a gate in the same checkout shows it too.
SWEEP_HISTORY = Path(".patchgate/sweep/history.sqlite")
# A sparkline shows at most this many values of a fact.
_RUNS = 30


def write_html(
    path: Path,
    title: str,
    results: Iterable[RunResults],
    *,
    since: Path,
    code: int,
    history: Path,
    regressions: Regressions | None = None,
    made_by: Sequence[str] = (),
) -> None:
    """Write the page, one file with everything in it.

    The age of the file `since` is the age of the verdicts. `regressions` are given only for a
    sweep.
    """
    page = Page()
    with ExitStack() as stack:
        try:
            past = stack.enter_context(closing(History(history))) if history.is_file() else None
        except UsageError as error:
            past = None
            page.note = f"No history is shown. {error}"  # the verdicts do not depend on it
        if past:
            page.past = cache(lambda workload, device: past.past(workload, device, _RUNS))
        for result in results:
            page.add(result)
        page.made_by = tuple(made_by)
    at = datetime.fromtimestamp(since.stat().st_mtime, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    write_atomically(path, render_html(title, page, at=at, code=code, regressions=regressions))


@click.command()
@options
def report(
    *,
    html: Path | None = option(
        dir_okay=False,
        metavar="FILE",
        help="Write the page here.",
    ),
    form: Form,
    folder: ResultsFolder,
) -> NoReturn:
    """Show the last run again, and write its reports again."""
    judged = [judged_before(run) for run in runs_in(Path(folder))]
    for each in judged:
        if is_edited(each.run):
            click.echo(
                f"{display_path(Path(each.run.patch))} was edited after it was judged; to judge it "
                f"as it is: {each.run.again}",
                err=True,
            )
    sys.exit(show(judged, Path(folder), form, html))


def show(runs: Sequence[JudgedRun], folder: Path, form: str, html: Path | None = None) -> int:
    """Print a run and write its reports, with the page in `html` if it is given. Return the exit
    code.
    """
    judged = [JudgedPatch(**each._asdict()) for each in runs]
    below = display_path(folder) + (f", {display_path(html)}" if html else "")
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
        since = Path(judged[0].run.folder) / VERDICTS
        title = ", ".join(each.patch.id for each in judged)
        write_html(
            html,
            title,
            results,
            since=since,
            code=code,
            history=SWEEP_HISTORY,
            made_by=provenance(judged[0]),
        )
    FORMATS[form](judged, html)
    if form != "text" or len(judged) > 1:
        count = "1 patch" if len(judged) == 1 else f"{len(judged)} patches"
        click.echo(f"{count}, results below {below}; exit code {code}", err=form != "text")
    return code


def provenance(judged: JudgedPatch) -> list[str]:
    """The version, commit, work, machine and command of a run, for its page."""
    commit = last_commit(Path(judged.run.patch))
    work = time_text(sum(cell.seconds for cell in judged.cells))
    return [
        f"patchgate {__version__}",
        *([f"patch last changed by commit {commit}"] if commit else []),
        f"{counted(len(judged.cells), 'check')}, {work} of work",
        f"{platform.system()} {platform.machine()}, {counted(os.cpu_count() or 1, 'core')}",
        typed(judged.run.again),
    ]


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore signals while the reports are written: everything is judged already, and writing takes
    only a moment.
    """
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command()
@options
def comment(
    *,
    folders: tuple[Path, ...] = argument(required=True, file_okay=False),
) -> None:
    """Print results as one comment for a pull request.

    Files in FOLDERS are not trusted: text from them is escaped and shortened.
    """
    click.echo(render_comment(folders), nl=False)
