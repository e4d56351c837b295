"""The key of everything that decides the verdicts of a run: two runs with one key must give the
same verdicts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from patchgate.inputs.devices import profile_files
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import workload_files
from patchgate.model.files import read_bytes
from patchgate.model.paths import DEVICES, GOLDEN, PACKAGE, WORKLOADS, display_path
from patchgate.model.serialization import to_dict
from patchgate.runner.cache_keys import files_digest, patch_digest
from patchgate.runner.run_settings import Run


def content_key(run: Run, patch: Patch, environments: Mapping[str, str]) -> str:
    """Hash everything that could change a verdict: the patches, the digests of environments, the
    inputs, the options, and patchgate itself.
    """
    own = project_files(run.project)
    content = [
        dict(environments),
        {path.id: patch_digest(path) for path in (patch, *map(load_patch, map(Path, run.others)))},
        [
            run.problems,
            run.devices,
            run.workloads,
            run.checks,
            run.strict,
            run.nightly,
            run.seed,
            to_dict(run.limits),
        ],
        input_digests(),
        {name: hashlib.sha256(text).hexdigest() for name, text in own.items()},
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def input_digests() -> list[str]:
    """Digests of patchgate itself and of all its inputs."""
    return [files_digest(folder) for folder in (PACKAGE, WORKLOADS, DEVICES, GOLDEN)]


def project_files(project: Project) -> dict[str, bytes]:
    """Return the content of each project file that a verdict depends on, by its path in the
    project: table, golden, workloads and devices.
    """
    return {
        path.relative_to(project.root).as_posix(): read_bytes(path)
        for path in files_of_project(project)
    }


def files_of_project(project: Project) -> list[Path]:
    """Return the paths of the project files that a verdict depends on.

    Raises UsageError for a file outside the project.
    """
    golden = project.golden_folder.glob("*.txt")
    workloads = (file for place in project.own_workloads() for file in workload_files(place))
    devices = (
        Path(file) for name in project.profiles for file in profile_files(name, project.profiles)
    )
    files = {*golden, *workloads, *devices, *map(Path, filter(None, [project.table]))}
    for path in files:
        if not path.is_relative_to(project.root):
            raise project.fault(
                "devices",
                "outside of the project",
                display_path(path),
                f"move it below {display_path(project.root)}",
            )
    return sorted(files)
