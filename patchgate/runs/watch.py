"""`patchgate gate --watch`: judges again after each edit, with the servers of the first
judgement.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.runner.cache_keys import patch_files
from patchgate.runner.start_server import running_servers
from patchgate.runs.content_key import files_of_project
from patchgate.runs.gate import JudgedRun, PlannedRun

# Seconds between two looks at the watched files.
_LOOK_SECONDS = 0.2
#: Inode, size in bytes, and time of the last change in nanoseconds.
FileState = tuple[int, int, int]


Plan = Callable[[], list[PlannedRun]]


Judge = Callable[..., list[JudgedRun]]


def judge_after_edits(
    plan: Plan, judge: Judge, refused: Callable[[UsageError], None]
) -> Iterator[tuple[list[JudgedRun], int]]:
    """Judge now, and after each edit of the patches or their project, until Ctrl-C. Yield each
    judgement with the number of watched files. `refused` gets the reason if an edit leaves nothing
    to judge.

    Later runs use the same servers, which run no patch themselves, and all measurements of the same
    code. After an edit of a manifest or of golden, nothing is measured again.
    """
    runs = plan()
    with _session(runs) as session, running_servers(runs[0].run.rows) as servers:
        while True:
            first = runs[0].run
            others = [load_patch(Path(path)) for path in first.others]
            project, patches = first.project, [*(planned.patch for planned in runs), *others]
            files = edited_files(project, patches)
            name = Path(session).name
            watched = [
                each._replace(run=replace(each.run, patched_cache=session, watch=name))
                for each in runs
            ]
            yield judge(watched, servers=servers), len(files)
            try:
                runs = []
                while not runs:
                    files = wait_for_edit(project, patches, files)
                    try:
                        runs = plan()
                    except UsageError as error:  # an unfinished manifest
                        refused(error)
            except KeyboardInterrupt:
                return


@contextlib.contextmanager
def _session(runs: Sequence[PlannedRun]) -> Iterator[str]:
    """A folder that the judgements share. At the end it is removed, with the compiled C++ that is
    named after it.
    """
    with tempfile.TemporaryDirectory(prefix="watch-") as folder:
        try:
            yield folder
        finally:
            for place in {planned.run.binaries or folder for planned in runs}:
                for built in Path(place).glob(f"*/{Path(folder).name}-*"):
                    shutil.rmtree(built, ignore_errors=True)


def edited_files(project: Project, patches: Iterable[Patch]) -> dict[str, FileState]:
    """Return the state of every file that a user may edit between two runs: the files of the
    patches and of the project.
    """
    files = {file for patch in patches for file in patch_files(patch)}
    with contextlib.suppress(UsageError):  # a file that the table names is gone
        files.update(files_of_project(project))
    files |= {Path(file) for patch in patches for file in (patch.diff, patch.manifest) if file}
    states: dict[str, FileState] = {}
    for file in files:
        with contextlib.suppress(OSError):  # it is being replaced
            now = file.stat()
            states[str(file)] = now.st_ino, now.st_size, now.st_mtime_ns
    return states


def wait_for_edit(
    project: Project, patches: Sequence[Patch], before: Mapping[str, FileState]
) -> dict[str, FileState]:
    """Return the states of the files after the next edit. Wait until they no longer change, since
    an editor writes in steps.
    """
    last: Mapping[str, FileState] = before
    while (now := edited_files(project, patches)) == before or now != last:
        last = now
        time.sleep(_LOOK_SECONDS)
    return now
