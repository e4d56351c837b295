"""`patchgate fidelity`: every workload on the real GPU and in simulation.

The exit code is 1 where a fact differs, 4 where a case could not be compared, 3 where nothing was.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from patchgate.cli.options import (
    Patches,
    Problems,
    Rows,
    Workers,
    Workloads,
    own_folder,
    time_limit,
)
from patchgate.cli.parameters import option, options
from patchgate.inputs.devices import REAL, load_profile
from patchgate.inputs.models import model_workloads
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.results import Fidelity
from patchgate.report.fidelity import show_fidelity
from patchgate.report.terminal import to_stdout
from patchgate.runner.run_settings import Limits, Run
from patchgate.runs.observe import compare_devices
from patchgate.runs.plan import emptied_folder, only_known, problems_of, rows_of, with_models


@click.command()
@options
def fidelity(
    *,
    patches: Patches,
    rows: Rows,
    problems: Problems,
    profile: str = option(default="h200", metavar="NAME", help="The profile of the machine's GPU."),
    workloads: Workloads,
    time_limit: float = time_limit(240.0),
    workers: Workers,
    folder: Path = own_folder(
        ".patchgate/fidelity", "the observations are left, for `patchgate record`"
    ),
) -> NoReturn:
    """Compare the simulated GPU with the real one of this machine.

    Each workload is compiled on both, without a patch and with each of PATCHES.
    """
    project, workloads = with_models(Project(), workloads)
    known = load_workloads() | model_workloads(project.models)
    only_known(workloads, known, "workload", "--workload")
    if load_profile(profile)["kind"] != "simulated":
        raise UsageError(
            "not a simulated device", where="--profile", got=profile, next="--profile h200"
        )
    torches, broken = rows_of(rows, project), problems_of(problems)
    if not (torches or broken):
        raise UsageError(
            "no torch to compare on", where="--row", got="none", next="--row 2.11.0=path/to/python"
        )
    for path in patches:
        load_patch(path)
    run = Run(
        folder=emptied_folder(folder),
        patch=str(patches[0].resolve()) if patches else "",
        project=project,
        rows=torches,
        devices=(REAL, profile),
        nightly=True,
        limits=Limits(seconds=time_limit),
    )
    results = [
        Fidelity(torch=torch, workload="-", patch=None, failed=reason)
        for torch, reason in broken.items()
    ]
    results += compare_devices(run, workloads or list(known), patches, workers)
    to_stdout(lambda console: show_fidelity(console, results))
    sys.exit(exit_code(results))


def exit_code(results: Sequence[Fidelity]) -> int:
    """The exit code: a case that could not be compared is the machine's trouble, and no proof of
    anything.
    """
    if any(result.unlike for result in results):
        return 1
    if any(result.failed for result in results):
        return 4
    return 0 if any(result.compared for result in results) else 3
