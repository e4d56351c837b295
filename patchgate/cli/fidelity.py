"""`patchgate fidelity`: every workload on the real GPU and in simulation, in one go.

Decides options, what is observed at once, and the exit code. What is equal is decided elsewhere.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import NoReturn

import click

from patchgate.cli.options import ABOVE_0, AT_LEAST_1, problem_option, problems_of, row_option, rows_of
from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.inputs.record_device import REAL
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.files import make_results_folder
from patchgate.model.records import Case, Observation, Patch, Workload
from patchgate.model.results import Fidelity
from patchgate.report.fidelity import show_fidelity
from patchgate.report.terminal import to_stdout
from patchgate.runner.client import Runner
from patchgate.runner.run import NAME, Limits, Run, save_run
from patchgate.runner.server import start_server
from patchgate.runs.fidelity import compare_sides


@click.command()
@click.argument("patches", nargs=-1, type=click.Path(path_type=Path))
@row_option
@problem_option
@click.option("--profile", default="h200", show_default=True, metavar="NAME", help="The profile of the machine's GPU.")
@click.option("--workload", "workloads", multiple=True, metavar="NAME", help="Only these workloads.")
@click.option("--time-limit", default=240.0, show_default=True, type=ABOVE_0, help="Seconds that one case may take.")
@click.option("-n", "workers", default=2, show_default=True, type=AT_LEAST_1, help="Cases run at the same time.")
@click.option(
    "--folder",
    default="build/fidelity",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the observations are left, for `patchgate record`.",
)
def fidelity(
    patches: tuple[Path, ...],
    rows: tuple[str, ...],
    problems: tuple[str, ...],
    profile: str,
    workloads: tuple[str, ...],
    time_limit: float,
    workers: int,
    folder: Path,
) -> NoReturn:
    """Compare the simulated GPU with the real one of this machine, unpatched and with each of PATCHES."""
    known = load_workloads()
    for name in workloads:
        if name not in known:
            raise UsageError(f"no workload `{name}`", where="--workload", got=name, next="one of fixtures/workloads")
    if load_profile(profile)["kind"] != "simulated":
        raise UsageError("not a simulated device", where="--profile", got=profile, next="--profile h200")
    torches, broken = rows_of(rows), problems_of(problems)
    if not (torches or broken):
        raise UsageError("no torch to compare on", where="--row", got="none", next="nox -s fidelity")
    chosen = [known[name] for name in workloads or known]
    loaded = [None, *(load_patch(path) for path in patches)]
    make_results_folder(folder, "--folder", mark=NAME)
    shutil.rmtree(folder, ignore_errors=True)
    run = Run(
        folder=str(folder.resolve()),
        patch=str(patches[0].resolve()) if patches else "",
        rows=torches,
        devices=(REAL, profile),
        nightly=True,
        limits=Limits(seconds=time_limit),
    )
    save_run(run)
    told = [Fidelity(torch=one, workload="-", patch=None, failed=reason) for one, reason in broken.items()]
    told += _compare(run, chosen, loaded, workers)
    to_stdout(lambda console: show_fidelity(console, told))
    sys.exit(_code(told))


def _compare(
    run: Run, workloads: Sequence[Workload], patches: Sequence[Patch | None], workers: int
) -> Iterator[Fidelity]:
    """One torch after the other: two warm ones would not fit into every machine."""
    for torch, python in run.rows.items():
        with ExitStack() as stack:
            server = start_server(torch, python)
            stack.callback(server.stop)
            runner = Runner(
                sockets={torch: server.socket},
                logs={torch: server.log},
                store=run.store,
                artifacts=Path(run.folder) / "code",
                limits=run.limits,
                nightly=run.nightly,
            )

            def both(case: tuple[Workload, Patch | None], runner: Runner = runner, torch: str = torch) -> Fidelity:
                return compare_sides(*(_observe(runner, torch, device, *case) for device in run.devices))

            with ThreadPoolExecutor(workers) as pool:
                yield from pool.map(both, product(workloads, patches))


def _observe(runner: Runner, torch: str, device: str, workload: Workload, patch: Patch | None) -> Observation:
    case = Case(torch=torch, device=device, workload=workload.name, patch=patch.id if patch else None)
    return runner.observe(case, workload, patch)


def _code(told: Sequence[Fidelity]) -> int:
    """DESIGN's exit codes: a case that could not be compared is the machine's, and no proof of anything."""
    if any(one.unlike for one in told):
        return 1
    if any(one.failed for one in told):
        return 4
    return 0 if any(one.compared for one in told) else 3
