"""`python -m benchmarks.fidelity`, which `nox -s fidelity` runs on a machine with a GPU: does every
workload have the same facts on the simulated one?

The exit code is 1 where a fact differs, 4 where a case could not be compared, 3 where nothing was.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import NoReturn

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchgate.cli.main import end_by_exit_code
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
from patchgate.inputs.project import find_project
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.facts import format_value, value_in
from patchgate.model.records import Case, Observation, Unmeasured, record
from patchgate.report.terminal import to_stdout
from patchgate.runner.run_settings import Limits, Run
from patchgate.runs.observe import observe_all
from patchgate.runs.plan import emptied_folder, only_known, problems_of, rows_of, with_models


@record
class Difference:
    """One fact with its two values, as they would stand in golden."""

    fact: str
    real: str
    simulated: str


@record
class Fidelity:
    """One case on a real device and on its simulation."""

    torch: str
    workload: str
    patch: str | None  #: the patch's id; None for unpatched
    compared: int = 0  #: how many facts were compared
    unlike: tuple[Difference, ...] = ()  #: those that differ
    excluded: Mapping[str, str] = field(
        default_factory=dict
    )  #: facts that were not compared, each with the reason
    failed: str = ""  #: why nothing was compared; empty when something was


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
    folder: Path = own_folder(".patchgate/fidelity", "the observations, for `record`"),
) -> NoReturn:
    """Compare the simulated GPU with the real one of this machine.

    Each workload is compiled on both, without a patch and with each of PATCHES.
    """
    project, workloads = with_models(find_project(Path.cwd()), workloads)
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


# Facts that one side cannot have, with the reason.
EXCLUDED = {
    "resources.occupancy": (
        "torch does not say how many blocks a multiprocessor of a real device holds"
    )
}


def compare_devices(
    run: Run, workloads: Sequence[str], patches: Sequence[Path], workers: int
) -> Iterator[Fidelity]:
    """Every workload on both devices of a run, unpatched and with each patch."""
    by_id = {load_patch(path).id: path.resolve() for path in patches}
    pairs = [
        [Case(torch=torch, device=device, workload=name, patch=patch) for device in run.devices]
        for torch in run.rows
        for name in workloads
        for patch in (None, *by_id)
    ]
    observed = observe_all(run, [case for pair in pairs for case in pair], by_id, workers)
    for pair in pairs:
        yield compare_sides(*(observed[case] for case in pair))


def compare_sides(real: Observation, simulated: Observation) -> Fidelity:
    """Both observations are of one case but for the device."""
    case = real.case
    fidelity = Fidelity(torch=case.torch, workload=case.workload, patch=case.patch)
    failed = [
        f"{side}: {observed.failure.signature} [{observed.failure.stage}]"
        for side, observed in (("real", real), ("simulated", simulated))
        if observed.failure
    ]
    if failed:
        return replace(fidelity, failed="; ".join(failed))
    names = sorted({*real.facts, *simulated.facts})
    excluded = {name: reason for name in names if (reason := _excluded(name, real, simulated))}
    if "compiles" in excluded:  # nothing was compiled, so there is no other fact
        return replace(fidelity, excluded={"every fact": excluded["compiles"]})
    compared = [name for name in names if name not in excluded]
    sides = {
        name: (value_in(real.facts, name), value_in(simulated.facts, name)) for name in compared
    }
    unlike = tuple(
        Difference(
            fact=name, real=format_value(one, "nothing"), simulated=format_value(other, "nothing")
        )
        for name, (one, other) in sides.items()
        if one != other
    )
    return replace(fidelity, compared=len(compared), unlike=unlike, excluded=excluded)


def _excluded(name: str, real: Observation, simulated: Observation) -> str:
    if name in EXCLUDED:
        return EXCLUDED[name]
    for side in (simulated, real):
        value = side.facts.get(name)
        if isinstance(value, Unmeasured):
            return value.reason
    return ""


def show_fidelity(console: Console, cases: Sequence[Fidelity]) -> None:
    """Print the table, the exclusions with their reasons, and one line that sums up."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("torch", "workload", "patch"):
        table.add_column(name, no_wrap=True)
    for name in ("compared", "equal"):
        table.add_column(name, justify="right")
    table.add_column("first difference (real, simulated)")
    for case in cases:
        counts = str(case.compared), str(case.compared - len(case.unlike))
        style = "bold red" if case.unlike else "yellow" if case.failed else ""
        table.add_row(
            case.torch,
            case.workload,
            case.patch or "-",
            *counts,
            Text(_difference(case), style=style),
        )
    console.print(table)
    for reason, facts in _exclusions(cases).items():
        console.print(Text(f"not compared: {', '.join(facts)}: {reason}"))
    console.print(Text(_summary(cases), style="bold"))


def _difference(case: Fidelity) -> str:
    if case.failed:
        return f"not compared: {case.failed}"
    return "".join(f"{first.fact}: {first.real}, {first.simulated}" for first in case.unlike[:1])


def _exclusions(cases: Sequence[Fidelity]) -> Mapping[str, list[str]]:
    """Reason -> facts; each with its workload where only one leaves it out."""
    workloads = defaultdict(set)
    for case in cases:
        for fact, reason in case.excluded.items():
            workloads[reason, fact].add(case.workload)
    facts = defaultdict(list)
    for (reason, fact), names in workloads.items():
        facts[reason].append(
            fact if len(names) > 1 and "." in fact else f"{fact} of {', '.join(sorted(names))}"
        )
    return facts


def _summary(cases: Sequence[Fidelity]) -> str:
    compared = sum(case.compared for case in cases)
    unlike = sum(len(case.unlike) for case in cases)
    failed = sum(bool(case.failed) for case in cases)
    rest = f"; {failed} cases could not be compared" if failed else ""
    return f"{compared - unlike} of {compared} facts equal in {len(cases) - failed} cases{rest}"


if __name__ == "__main__":
    end_by_exit_code(fidelity, "fidelity")
