"""`patchgate accept`: writes the facts that a run observed to golden; nothing is run again.

Only the observed cases are changed: a partial run removes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from patchgate.cli.options import ResultsFolder
from patchgate.cli.parameters import option, options
from patchgate.inputs.matrix import load_matrix
from patchgate.model.errors import UsageError
from patchgate.model.paths import display_path
from patchgate.model.policy import Colour
from patchgate.model.text import counted
from patchgate.report.last_lines import quick_look_of, share_text
from patchgate.report.view import view
from patchgate.runner.run_settings import Run, runs_in
from patchgate.runs.accept import (
    observations_of,
    parse_reason,
    plan_changes,
    project_of,
    refuse_edited,
    refuse_failing,
    refuse_stopped,
    refuse_unattended,
    refuse_unobserved,
    verdicts_of,
    write_changes,
)


@click.command()
@options
def accept(
    *,
    reason: str | None = option(
        metavar="TEXT", help="The reason for the change; goes into golden's HISTORY.md."
    ),
    yes: bool = option(help="Write without asking."),
    folder: ResultsFolder,
) -> None:
    """Record the facts of the last run in the golden files. Nothing is run.

    Shows each fact that changes, asks, and writes. `--yes` does not ask.
    """
    refuse_unattended(os.environ)
    runs = runs_in(Path(folder))
    for run in runs:
        refuse_edited(run)
        refuse_failing(run)
        refuse_stopped(run)
    golden = project_of(runs[0]).golden_folder
    observed = [observation for run in runs for observation in observations_of(run)]
    refuse_unobserved(observed, runs[0])
    releases = [row.torch for row in load_matrix()]
    changes = plan_changes(observed, releases, golden, _narrow(runs))
    if not changes:
        click.echo("golden already says what the last run observed")
        return
    for change in changes:
        click.echo("\n".join((display_path(change.path), *(f"  {line}" for line in change.facts))))
    for line in (line for run in runs for line in _caveats(run)):
        click.echo(line)
    text = parse_reason(reason)
    facts = counted(sum(len(change.facts) for change in changes), "fact")
    count = f"{facts} in {counted(len(changes), 'file')}"
    if not yes:
        if not has_terminal():
            raise UsageError(
                "needs confirmation, but this is not a terminal",
                where="--yes",
                got="a pipe",
                next="review the lines above, then run it again with --yes",
            )
        click.confirm(f"write {count}?", abort=True)
    patches = dict.fromkeys(each.case.patch for each in observed if each.case.patch)
    write_changes(changes, text, golden, patches)
    click.echo(f"{count} written below {display_path(golden)}; commit them")


def _narrow(runs: Sequence[Run]) -> set[str]:
    """The patches of narrowed runs, which left out a part of a full gate."""
    return {
        observation.case.patch
        for run in runs
        if run.is_narrowed
        for observation in observations_of(run)
        if observation.case.patch
    }


def _caveats(run: Run) -> Iterator[str]:
    """Lines that warn a person who accepts a run: the run is red, the patch changed nothing, or the
    run left something out.
    """
    verdicts, name = verdicts_of(run), display_path(Path(run.patch))
    red = sorted({verdict.code for verdict in verdicts if verdict.colour is Colour.RED})
    if red:
        yield f"{name}: the run is red ({', '.join(red)}); only facts stop being red"
    look = quick_look_of(run, verdicts)
    shown = view(verdicts, run.torches, look)
    if shown.is_idle or shown.without_effect:
        yield f"{name}: the patch changed nothing that was judged"
    if look:
        share = share_text(shown, look)
        yield f"{name}: a quick look, judged{share}; all else stays as it is recorded"


def has_terminal() -> bool:
    """True if a person can answer a question."""
    return sys.stdin.isatty()
