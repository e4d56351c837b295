"""Judges one patch: every check of each of its cases, several at once, with the verdicts left in
the run's folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from patchgate.checks.framework.context import SIMULATED, CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, all_checks
from patchgate.checks.framework.instances import cell_name, instances_of, verdicts_of
from patchgate.checks.machine import judge_broken, judge_environment, judge_stopped
from patchgate.inputs.devices import load_profile
from patchgate.inputs.manifest import Patch
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import reserve_space
from patchgate.model.paths import display_path
from patchgate.model.records import Verdict
from patchgate.model.results import JudgedCell
from patchgate.runner.client import Runner, loading, runner_of
from patchgate.runner.results_folder import Journal, held, put_aside, red_before, save_results
from patchgate.runner.run_settings import NAME, Run, accepting_from, save_run
from patchgate.runner.start_server import Servers, running_servers
from patchgate.runs.content_key import content_key
from patchgate.runs.pool import Ended, carry_out

# Of an error: characters that a verdict repeats.
_SHOWN = 200


class Progress(Protocol):
    """Is told how far a run is, in the thread that carries it out."""

    def planned(self, cells: Collection[str]) -> None:
        """Of the cells that are to be judged."""

    def started(self, cell: str) -> None:
        """Of a cell that is judged from now on."""

    def ended(self, cell: JudgedCell) -> None:
        """Of a cell that is judged."""


class Silent:
    """Progress that nobody watches."""

    def planned(self, cells: Collection[str]) -> None: ...

    def started(self, cell: str) -> None: ...

    def ended(self, cell: JudgedCell) -> None: ...


class Cell(NamedTuple):
    """One instance of a check."""

    check: Check
    at: Instance

    @property
    def name(self) -> str:
        return cell_name(self.check, self.at)

    def stopped(self, reason: str) -> Verdict:
        """The verdict where it was not judged."""
        return judge_stopped(self.check.family, self.at, self.check.name, reason)


def judge_patch(
    run: Run,
    patch: Patch,
    *,
    workers: int,
    progress: Progress | None = None,
    servers: Servers | None = None,
) -> list[Verdict]:
    """The verdicts of every check; so many `workers` cells are judged at once.

    Whatever ends it early, what was judged is left in the run's folder, with a verdict for each
    cell that was not. `servers` are those of the run's environments, where they outlast the run.
    """
    folder = Path(run.folder)
    with held(folder):
        put_aside(folder)
        try:
            save_run(run)
            # They start first, since to import torch takes longest.
            with nullcontext(servers) if servers else running_servers(run.rows) as asked:
                reserve_space(folder)
                patch = with_stand_ins(run, patch, runner_of(run, asked))
                context = _context(run, patch, runner_of(run, asked))
                cells = in_turn(cells_of(context), red_before(folder))
                journal = Journal(folder)
                before = journal.begin(_key(run, patch, asked))
                judged = [
                    *before,
                    *_judge_all(cells, before, context, journal, workers, progress or Silent()),
                ]
            return save_results(run, judged, _without_environment(run))
        except UsageError:
            raise
        except BaseException as error:
            leave_partial(run, patch, ended_by(error))
            raise


def with_stand_ins(run: Run, patch: Patch, runner: Runner) -> Patch:
    """The patch, with stand-ins for what of its package cannot be imported on a release of the
    run.
    """
    profile, found = load_profile(SIMULATED), dict[str, str]()
    in_package = patch.paths or any(
        (folder / "__init__.py").is_file() for folder in Path(patch.path).parents
    )
    for torch in run.rows if in_package else ():
        found |= runner.ask(torch, "stand-ins", profile=profile, **loading(patch)).get(
            "replaced", {}
        )
    return replace(patch, stand_ins=found)


def _context(run: Run, patch: Patch, runner: Runner) -> CheckContext:
    context = CheckContext(run, patch, workloads_with(Path(run.patch), run.project), runner)
    context.costs = runner.costs
    return context


def cells_of(context: CheckContext) -> list[Cell]:
    """Every cell of a run."""
    return [
        Cell(check, at) for check in all_checks().values() for at in instances_of(check, context)
    ]


def planned_cells(run: Run, patch: Patch) -> list[Cell]:
    """The same, of a run whose servers nobody needs."""
    return cells_of(_context(run, patch, Runner(run=run, connect=Servers({}, {}).connect, logs={})))


def in_turn(cells: Iterable[Cell], sooner: Collection[str]) -> list[Cell]:
    """The cells `sooner`, then the longest first, so that short ones fill the gaps at the end.

    What is timed comes last: it waits for the device.
    """
    return sorted(
        cells,
        key=lambda cell: (
            cell.check.name == "latency",
            cell.name not in sooner,
            -cell.check.seconds,
        ),
    )


def _key(run: Run, patch: Patch, servers: Servers) -> str:
    """The content key of the run; a fresh one if runs share nothing."""
    return content_key(run, patch, servers.identities) if run.shared_cache else os.urandom(8).hex()


def _judge_all(
    cells: list[Cell],
    before: Collection[JudgedCell],
    context: CheckContext,
    journal: Journal,
    workers: int,
    progress: Progress,
) -> list[JudgedCell]:
    """The cells that were not judged `before`, each in the journal as soon as it is judged."""
    known, judged = {cell.name for cell in before}, list[JudgedCell]()
    cells = [cell for cell in cells if cell.name not in known]
    progress.planned([cell.name for cell in cells])

    def keep(ended: Ended[Cell, list[Verdict]]) -> None:
        verdicts = (
            ended.result if ended.result is not None else [_unjudged(ended.item, ended.error)]
        )
        own = tuple(_for_reader(verdict, context) for verdict in verdicts)
        judged.append(
            JudgedCell(name=ended.item.name, seconds=round(ended.seconds, 3), verdicts=own)
        )
        with contextlib.suppress(OSError):  # a full disk, and nothing is left of what was reserved
            journal.append(judged[-1])
        progress.ended(judged[-1])

    work = partial(_judge, context=context)
    carry_out(
        cells, work, workers=workers, started=lambda cell: progress.started(cell.name), ended=keep
    )
    return judged


def _judge(cell: Cell, *, context: CheckContext) -> list[Verdict]:
    """The verdicts of a cell; none where another check says all that there is to say."""
    try:
        verdicts = verdicts_of(cell.check, cell.at, context)
    except NothingToJudge:
        return []
    return verdicts or [
        judge_broken(cell.name, "a verdict", "a check that says nothing has judged nothing")
    ]


def _unjudged(cell: Cell, error: BaseException | None) -> Verdict:
    """The verdict of a cell that ended with an error: the machine's trouble, or a defect of
    ours.
    """
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return cell.stopped(f"the machine failed: {error}")
    return judge_broken(
        cell.name, "a verdict", f"{type(error).__name__}: {' '.join(str(error).split())[:_SHOWN]}"
    )


def _for_reader(verdict: Verdict, context: CheckContext) -> Verdict:
    """The verdict for the author of a diff, who has never seen the Python file that stands for
    it.
    """
    patch = context.patch
    if patch.diff and (verdict.where or "").startswith(display_path(patch.path)):
        verdict = replace(verdict, where=display_path(patch.diff))
    return accepting_from(Path(context.run.folder), verdict)


def _without_environment(run: Run) -> list[Verdict]:
    return [judge_environment(torch, problem) for torch, problem in run.problems.items()]


def leave_partial(run: Run, patch: Patch, reason: str) -> list[Verdict]:
    """The verdicts of a run that did not end: those of the cells that it judged, and one for each
    other cell.
    """
    if not Path(run.folder, NAME).is_file():  # it did not begin
        with contextlib.suppress(OSError):  # a full disk
            save_run(run)
    judged = Journal(Path(run.folder)).cells()
    known = {cell.name for cell in judged}
    stopped = [cell.stopped(reason) for cell in planned_cells(run, patch) if cell.name not in known]
    return save_results(run, judged, [*stopped, *_without_environment(run)])


def ended_by(error: BaseException) -> str:
    """The reason, for a report: a signal, or what went wrong."""
    what = " ".join(str(error).split())[:_SHOWN]
    if isinstance(error, KeyboardInterrupt):
        return f"the run was ended by {what or 'SIGINT'}"
    if isinstance(error, OSError):
        return f"the machine failed: {what}"
    return f"patchgate failed: {type(error).__name__}: {what}"
