"""`patchgate gate --watch`: judges again after each edit, with the servers of the first judgement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from patchgate.cli.main import show_usage_error
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import is_partial
from patchgate.model.records import Verdict
from patchgate.report.formats import JudgedPatch
from patchgate.report.view import changes_of_red
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import shared_servers
from patchgate.runs.content_key import FileState, edited_files, wait_for_edit

#: As `shared_servers` gives it; None where each run starts its own.
Servers = Mapping[str, Any] | None
Plan = Callable[[], list[Run]]
Judge = Callable[[list[Run], Servers], list[JudgedPatch]]
Show = Callable[[list[JudgedPatch]], int]


def judge_after_edits(plan: Plan, judge: Judge, show: Show) -> int:
    """Judge, and judge again after each edit of the patches or their project; the last exit code, once Ctrl-C ends it.

    Nothing of a judgement is kept for the next but the servers, which run no patch themselves, and what each run keeps.
    """
    runs, before = plan(), None
    with shared_servers(runs[0].rows) as servers:
        while True:
            paths = dict.fromkeys([*(run.patch for run in runs), *runs[0].others])
            project, patches = runs[0].project, [load_patch(Path(path)) for path in paths]
            files = edited_files(project, patches)
            judged = judge(runs, servers)
            code = show(judged)
            verdicts = [verdict for each in judged for verdict in each.verdicts]
            if is_partial(verdicts):
                return code
            _say(before, verdicts, len(files), code)
            before = verdicts
            try:
                runs = _edited_runs(plan, project, patches, files)
            except KeyboardInterrupt:
                return code


def _say(before: Sequence[Verdict] | None, verdicts: Sequence[Verdict], files: int, code: int) -> None:
    changes = "" if before is None else f"since the last judgement: {changes_of_red(before, verdicts)}\n"
    click.echo(f"{changes}waiting for an edit of {files} files; Ctrl-C ends, with exit code {code}", err=True)


def _edited_runs(plan: Plan, project: Project, patches: Sequence[Patch], files: Mapping[str, FileState]) -> list[Run]:
    """The runs after the next edit with which there are any: half a manifest is a message."""
    while True:
        files = wait_for_edit(project, patches, files)
        try:
            return plan()
        except UsageError as error:
            show_usage_error(error)
