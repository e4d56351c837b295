"""What decides the verdicts of a run: the key of all of it, the files that a user may edit, and waiting for an edit.

Two runs of one key must come to the same verdicts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from patchgate.inputs.devices import profile_files
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import workload_files
from patchgate.model.errors import UsageError
from patchgate.model.paths import DEVICES, GOLDEN, PACKAGE, SUITE, WORKLOADS, display_path
from patchgate.model.serialization import to_dict
from patchgate.runner.cache_keys import environment_digest, files_digest, patch_digest, patch_files
from patchgate.runner.run_settings import Run

# Between two looks at the files of a run that is watched.
_LOOK_SECONDS = 0.2
#: Inode, bytes, and nanoseconds of the last change.
FileState = tuple[int, int, int]


def content_key(run: Run, patch: Patch) -> str:
    """Of everything that could make another verdict: patch, environments, inputs, options, and patchgate itself."""
    own = project_files(run.project)
    content = [
        {torch: environment_digest(python) for torch, python in run.rows.items()},
        {path.id: patch_digest(path) for path in (patch, *map(load_patch, map(Path, run.others)))},
        [run.problems, run.devices, run.workloads, run.checks, run.strict_new, run.nightly, to_dict(run.limits)],
        input_digests(),
        {name: hashlib.sha256(text).hexdigest() for name, text in own.items()},
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def input_digests() -> list[str]:
    """Digests of patchgate itself and of all that it judges with."""
    return [files_digest(folder) for folder in (PACKAGE, SUITE, WORKLOADS, DEVICES, GOLDEN)]


def project_files(project: Project) -> dict[str, bytes]:
    """The files of a project that a verdict depends on, by their path in it: table, golden, workloads and devices."""
    return {path.relative_to(project.root).as_posix(): path.read_bytes() for path in _files_of_project(project)}


def _files_of_project(project: Project) -> list[Path]:
    golden = project.golden_folder.glob("*.txt")
    workloads = (file for place in project.own_workloads() for file in workload_files(place))
    devices = (Path(file) for name in project.profiles for file in profile_files(name, project.profiles))
    files = {*golden, *workloads, *devices, *map(Path, filter(None, [project.table]))}
    for path in files:
        if not path.is_relative_to(project.root):
            advice = f"move it below {display_path(project.root)}"
            raise project.fault("devices", "outside of the project", display_path(path), advice)
    return sorted(files)


def edited_files(project: Project, patches: Iterable[Patch]) -> dict[str, FileState]:
    """Every file that a user may edit between two runs: those of the patches, and of the project."""
    files = {file for patch in patches for file in patch_files(patch)}
    with contextlib.suppress(UsageError):  # what the table names is gone
        files.update(_files_of_project(project))
    files |= {Path(file) for patch in patches for file in (patch.diff, patch.manifest) if file}
    states: dict[str, FileState] = {}
    for file in files:
        with contextlib.suppress(OSError):  # it is being replaced
            now = file.stat()
            states[str(file)] = now.st_ino, now.st_size, now.st_mtime_ns
    return states


def wait_for_edit(project: Project, patches: Sequence[Patch], before: Mapping[str, FileState]) -> dict[str, FileState]:
    """The files after the next edit, once a look finds no further one: an editor writes in steps."""
    last: Mapping[str, FileState] = before
    while (now := edited_files(project, patches)) == before or now != last:
        last = now
        time.sleep(_LOOK_SECONDS)
    return now
