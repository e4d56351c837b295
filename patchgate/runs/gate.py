"""Judges one patch: runs every check on each of its cases, several at once, and writes the verdicts
into the run's folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from patchgate.checks.framework.context import SIMULATED, CheckContext
from patchgate.checks.framework.find_checks import (
    REQUIRES,
    Check,
    Instance,
    NothingToJudge,
    all_checks,
    refuse_unknown_codes,
)
from patchgate.checks.framework.instances import cell_name, instances_of, verdicts_of
from patchgate.checks.framework.patch_outcome import does_not_run, package_of
from patchgate.checks.machine import (
    judge_broken,
    judge_contradicted,
    judge_edited,
    judge_environment,
    judge_stopped,
)
from patchgate.inputs.devices import REAL, load_profile
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.patch_source import Unreadable, parse, read_source
from patchgate.inputs.torch_range import requirements_for
from patchgate.inputs.workloads import premerge_workloads, workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import MACHINE
from patchgate.model.files import HELD, delete, reserve_space, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Cause, Command, Failure, Verdict
from patchgate.model.results import JudgedCell, Progress
from patchgate.runner.cache import prune
from patchgate.runner.cache_keys import text_digest
from patchgate.runner.client import Runner, loading, runner_of
from patchgate.runner.files_read import changed_since_read
from patchgate.runner.journal import Journal
from patchgate.runner.results_folder import (
    cells_before,
    held,
    put_aside,
    save_results,
)
from patchgate.runner.run_settings import (
    NAME,
    VERDICTS,
    Run,
    accepting_from,
    load_verdicts,
    save_run,
)
from patchgate.runner.start_server import Servers, running_servers
from patchgate.runs.content_key import content_key
from patchgate.runs.pool import Ended, carry_out

# The number of characters of an error that a verdict repeats.
_SHOWN = 200
# The folder of everything that later runs use again. It is below the working directory, wherever
# the results go.
_KEPT = Path(".patchgate")

# The maximum bytes of each sort of kept entries. Above it, the least recently used are deleted.
_KEPT_BYTES = 2 << 30

# Matches the option of a command that names the interpreter of a release.
_ROW = re.compile(r"--row ([^=]+)=.*", re.S)

# This program runs in another interpreter. It reads the patch, and never runs it.
_COMPILE = "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"


#: Two dicts by torch release: the interpreters, and the reasons why a release has none.
Environments = tuple[dict[str, str], dict[str, str]]


class PlannedRun(NamedTuple):
    """A run that is to be carried out, and its patch."""

    run: Run
    patch: Patch


class JudgedRun(NamedTuple):
    """A run that was carried out."""

    run: Run
    patch: Patch
    verdicts: list[Verdict]


class Turn(NamedTuple):
    """The position of a run in a sequence of runs."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"patch {self.number} of {self.of}"


class Cell(NamedTuple):
    """One instance of a check."""

    check: Check
    at: Instance

    @property
    def name(self) -> str:
        return cell_name(self.check, self.at)

    def stopped(self, reason: str) -> Verdict:
        """The verdict if the cell was not judged."""
        return judge_stopped(self.check.family, self.at, self.check.name, reason)


def judge_patch(
    run: Run,
    patch: Patch,
    *,
    workers: int,
    progress: Progress | None = None,
    servers: Servers | None = None,
) -> list[Verdict]:
    """Return the verdicts of every check; `workers` cells are judged at once.

    If the run ends early, its folder holds the verdicts of the judged cells and a verdict for each
    other cell. Pass `servers` if the servers of the run's environments outlast the run.
    """
    folder, text = Path(run.folder), text_digest(patch)
    with held(folder):
        put_aside(folder)
        try:
            save_run(run)
            # The servers start first, because importing torch takes longest.
            with nullcontext(servers) if servers else running_servers(run.rows) as asked:
                reserve_space(folder)
                patch = with_stand_ins(run, patch, runner_of(run, asked))
                context = _context(run, patch, runner_of(run, asked))
                red = {cell.name for cell in cells_before(folder) if cell.red}
                cells = in_turn(cells_of(context), red)
                journal = Journal(folder)
                key = os.urandom(8).hex()  # a fresh one if runs share nothing
                if run.shared_cache:
                    key = content_key(run, patch, asked.identities)
                before = journal.begin(key)
                as_read = RedAsRead(partial(edited_files, run, patch, text), before)
                try:
                    now = _judge_all(
                        cells, before, context, journal, workers, progress or Progress(), as_read
                    )
                finally:
                    edited = edited_files(run, patch, text)
                    if edited:
                        journal.disown()
            more = _without_environment(run)
            more += starmap(judge_contradicted, dict.fromkeys(context.runner.contradicted))
            if edited and not run.watch:  # a watch judges again
                more.append(judge_edited(patch.id, edited[0], is_red=as_read.found))
            return save_results(run, [*before, *now], more)
        except UsageError:
            raise
        except BaseException as error:
            leave_partial(run, patch, ended_by(error))
            raise


class RedAsRead:
    """Notes if a cell was red before any file was `edited`: this verdict is about the text read."""

    def __init__(self, edited: Callable[[], list[str]], before: Iterable[JudgedCell]) -> None:
        self._edited, self.found = edited, any(cell.red for cell in before)

    def note(self, cell: JudgedCell) -> None:
        self.found = self.found or (bool(cell.red) and not self._edited())


def edited_files(run: Run, patch: Patch, text: str) -> list[str]:
    """Return the files edited after the patch's digest `text` was taken: the patch or its manifest,
    and the files that the patch has read.
    """
    try:
        is_edited = text_digest(load_patch(Path(run.patch))) != text
    except UsageError:
        is_edited = True
    own = [f"{display_path(Path(patch.diff or patch.path))}, or its manifest,"] * is_edited
    read = [Path(path) for path in changed_since_read(Path(run.folder)) if os.path.isfile(path)]
    return [*own, *map(display_path, read)]


def with_stand_ins(run: Run, patch: Patch, runner: Runner) -> Patch:
    """The patch, with stand-ins for modules of its package that cannot be imported on a release of
    the run.
    """
    around = Path(patch.path).parents
    if not patch.paths and not any((folder / "__init__.py").is_file() for folder in around):
        return patch
    found = dict[str, str]()
    for torch in run.rows:
        answer = runner.ask(torch, "stand-ins", profile=load_profile(SIMULATED), **loading(patch))
        found |= answer.get("replaced", {})
    return replace(
        patch,
        stand_ins={
            name: why
            for name, why in found.items()
            if not name.startswith("torch.") or package_of(name, patch)
        },
    )


def _context(run: Run, patch: Patch, runner: Runner) -> CheckContext:
    return CheckContext(run, patch, workloads_with(Path(run.patch), run.project), runner)


def cells_of(context: CheckContext) -> list[Cell]:
    """Every cell of a run."""
    return [
        Cell(check, at) for check in all_checks().values() for at in instances_of(check, context)
    ]


def planned_cells(run: Run, patch: Patch) -> list[Cell]:
    """Every cell of a run, listed without starting its servers."""
    return cells_of(_context(run, patch, runner_of(run, Servers({}, {}))))


def in_turn(cells: Iterable[Cell], sooner: Collection[str]) -> list[Cell]:
    """Sort the cells: first the cells named in `sooner`, then cells on a real GPU, then the rest.
    In each group, longer cells come first, so that short ones fill the gaps at the end.

    Timings, which wait for the device, come last.
    """
    return sorted(
        cells,
        key=lambda cell: (
            cell.check.name == "latency",
            cell.name not in sooner,
            cell.at.case.device != REAL,
            -cell.check.seconds,
        ),
    )


def _judge_all(
    cells: list[Cell],
    before: Collection[JudgedCell],
    context: CheckContext,
    journal: Journal,
    workers: int,
    progress: Progress,
    as_read: RedAsRead,
) -> list[JudgedCell]:
    """Judge the cells that are not among `before`, and journal each as soon as it is judged."""
    known, judged = {cell.name for cell in before}, list[JudgedCell]()
    cells = [cell for cell in cells if cell.name not in known]
    kept: dict[str, float] = {}
    for torch in context.run.rows:
        kept |= context.runner.seconds_kept(torch, context.patch)
    progress.planned({cell.name: cell.check.seconds for cell in cells}, kept)

    for event in carry_out(cells, partial(_judge, context), workers=workers):
        if not isinstance(event, Ended):
            progress.started(event.name)
            continue
        cell, verdicts = event.item, event.result
        if verdicts is None:
            verdicts = [_unjudged(cell, event.error)]
        own = tuple(_for_reader(verdict, context) for verdict in verdicts)
        judged.append(JudgedCell(name=cell.name, seconds=round(event.seconds, 3), verdicts=own))
        as_read.note(judged[-1])
        with contextlib.suppress(OSError):  # the disk is full, and the reserved space is used up
            journal.append(judged[-1])
        progress.ended(judged[-1])
    with contextlib.suppress(OSError):
        context.runner.keep_seconds(context.patch)
    return judged


def _judge(context: CheckContext, cell: Cell) -> list[Verdict]:
    """Judge a cell. Return no verdict if another check gives the same one."""
    try:
        with context.runner.timed(cell.at.case.torch, cell.name):
            verdicts = verdicts_of(cell.check, cell.at, context)
    except NothingToJudge:
        return []
    nothing = "a check that gave no result has judged nothing"
    return verdicts or [judge_broken(cell.name, "a result", nothing)]


def _unjudged(cell: Cell, error: BaseException | None) -> Verdict:
    """The verdict on a cell that ended with an error, of the machine or of patchgate itself."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return cell.stopped(f"the machine failed: {error}")
    return judge_broken(cell.name, "a result", f"{type(error).__name__}: {_one_line(error)}")


def _one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split())[:_SHOWN]


def _for_reader(verdict: Verdict, context: CheckContext) -> Verdict:
    """Return the verdict with the diff in place of the Python file, which the diff's author does
    not know, and with commands that fit the run.
    """
    patch = context.patch
    if patch.diff and (verdict.where or "").startswith(display_path(patch.path)):
        verdict = replace(verdict, where=display_path(patch.diff))
    commands = (_installing(context, command) for command in verdict.commands)
    verdict = replace(verdict, commands=tuple(filter(None, commands)))
    return accepting_from(Path(context.run.folder), verdict)


def _installing(context: CheckContext, command: Command) -> Command | None:
    """Give a command that installs packages the options of the run, and the project's names of
    packages. `--torch` replaces `--row`: nothing is installed in a given interpreter.

    None if this run has installed the packages already. Other commands are returned unchanged.
    """
    names = [word.removeprefix(f"{REQUIRES} ") for word in command.arguments]
    if command.name != "gate" or names == list(command.arguments):
        return command
    required = requirements_for(names, Path(context.patch.path))
    if {*required} <= {*context.run.project.requires}:
        return None
    words = [_ROW.sub(r"--torch \1", word) for word in context.run.again.arguments]
    words += [f"{REQUIRES} {shlex.quote(each)}" for each in required]
    return replace(command, arguments=tuple(dict.fromkeys(words)))


def _without_environment(run: Run) -> list[Verdict]:
    return [judge_environment(torch, problem) for torch, problem in run.problems.items()]


def leave_partial(run: Run, patch: Patch, reason: str) -> list[Verdict]:
    """Write the verdicts of a run that did not end: the verdicts of its judged cells, and a verdict
    for each other cell.
    """
    if not Path(run.folder, NAME).is_file():  # the run did not begin
        with contextlib.suppress(OSError):  # a full disk
            save_run(run)
    judged = Journal(Path(run.folder)).cells()
    known = {cell.name for cell in judged}
    stopped = [cell.stopped(reason) for cell in planned_cells(run, patch) if cell.name not in known]
    return save_results(run, judged, [*stopped, *_without_environment(run)])


def ended_by(error: BaseException) -> str:
    """The reason why a run ended early, for a report: a signal, or the error."""
    what = _one_line(error)
    if isinstance(error, KeyboardInterrupt):
        return f"the run was ended by {what or 'SIGINT'}"
    if isinstance(error, OSError):
        return f"the machine failed: {what}"
    return f"patchgate failed: {type(error).__name__}: {what}"


def judge_runs(
    runs: Sequence[PlannedRun],
    *,
    folder: Path,
    workers: int,
    progress: Callable[[Run, Patch, Turn], AbstractContextManager[Progress]],
    ended: Callable[[JudgedRun, Turn], None],
    failed: Callable[[BaseException], None],
    servers: Servers | None = None,
) -> list[JudgedRun]:
    """Judge each run below `folder`, pass it to `ended` at once, and return them all. If a signal
    or a fault ends a run, the remaining runs do not begin, and `failed` gets the error.
    """
    _empty(folder, runs)
    _keep_out_of_git(_KEPT)
    judged: list[JudgedRun] = []
    # Servers run no patch themselves, so several runs can share them.
    is_shared = not servers and len(runs) > 1 and all(runs[0].run.rows.values())
    with running_servers(runs[0].run.rows) if is_shared else nullcontext(servers) as shared:
        for number, (run, patch) in enumerate(runs, 1):
            try:
                failure = syntax_failure(patch, run.rows.values())
                put_aside(Path(run.folder))  # a judgement of `--watch` has left results
                if failure:
                    save_run(run)
                    cases = [Case(torch=torch, patch=patch.id) for torch in run.torches]
                    found = [does_not_run(case, failure, patch, run.again) for case in cases]
                    verdicts = save_results(run, [], found)
                else:
                    # An earlier patch may have ended a server.
                    asked = shared if shared and shared.are_serving() else None
                    with progress(run, patch, Turn(number, len(runs))) as shown:
                        verdicts = judge_patch(
                            run, patch, workers=workers, progress=shown, servers=asked
                        )
                judged.append(JudgedRun(run, patch, verdicts))
                ended(judged[-1], Turn(number, len(runs)))
            except UsageError:
                raise
            except (KeyboardInterrupt, Exception) as error:
                failed(error)
                if not (Path(run.folder) / VERDICTS).is_file():  # no verdicts were written
                    sys.exit(MACHINE)
                judged.append(JudgedRun(run, patch, load_verdicts(Path(run.folder))))
                rest = runs[len(judged) :]
                judged += [JudgedRun(*each, leave_partial(*each, ended_by(error))) for each in rest]
                break
    for name in ("unpatched", "patched", "cpp"):
        prune(_KEPT / name, "*/*", _KEPT_BYTES)
    return judged


def planned_run(
    path: Path, patch: Patch, settings: Run, environments: Environments, *, alone: bool
) -> PlannedRun:
    """Return the run of one patch with these settings. Unless the patch is judged `alone`, the run
    has a folder of its own below the folder of the settings.
    """
    rows, problems = environments
    run = replace(
        settings,
        folder=str(Path(settings.folder, "." if alone else patch.id).resolve()),
        patch=str(path.resolve()),
        digest=text_digest(patch),
        rows=rows,
        problems=problems,
        premerge=premerge_workloads(workloads_with(path, settings.project), settings.project),
        shared_cache=str(_KEPT.resolve() / "unpatched"),
        patched_cache=str(_KEPT.resolve() / "patched"),
        binaries=str(_KEPT.resolve() / "cpp"),
    )
    return PlannedRun(run, patch)


def _keep_out_of_git(folder: Path) -> None:
    """Let git ignore the folder, which holds hundreds of MB that the next run makes again."""
    ignore = folder / ".gitignore"
    if not ignore.exists():
        folder.mkdir(exist_ok=True)
        write_atomically(ignore, "*\n")


def syntax_failure(patch: Patch, pythons: Iterable[str]) -> Failure | None:
    """Return a failure if none of the Pythons can read the patch, otherwise None. A diff is not
    Python, so it gives None.
    """
    if patch.diff:
        return None
    try:
        parse(read_source(Path(patch.path)))
        return None
    except Unreadable as error:
        where = f"{display_path(patch.path)}:{error.line}"
        signature = f"SyntaxError: {error.reason}"
    # Another Python may know newer syntax than this one.
    for python in filter(None, pythons):
        command = [python, "-I", "-c", _COMPILE, patch.path]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return None
    return Failure(cause=Cause.RAISED, stage="start", signature=signature, where=where)


def _empty(folder: Path, runs: Sequence[PlannedRun]) -> None:
    """Remove the results of earlier runs of other patches; each run empties its own
    folder itself.
    """
    own = {Path(planned.run.folder) for planned in runs}
    for path in () if folder.resolve() in own else set(folder.resolve().iterdir()) - own:
        if path.name != HELD:
            delete(path)


def judged_before(run: Run) -> JudgedRun:
    """The verdicts of an earlier run. If its process was killed, the cells that it did not reach
    count as stopped.
    """
    folder, patch = Path(run.folder), load_patch(Path(run.patch))
    if Journal(folder).cells() and not (folder / VERDICTS).is_file():
        verdicts = leave_partial(run, patch, "the process of the run was killed")
    else:
        verdicts = load_verdicts(folder)
    refuse_unknown_codes(str(folder), (verdict.code for verdict in verdicts))
    return JudgedRun(run, patch, verdicts)
