"""`python -m benchmarks.record`, which `nox -s record` runs: keeps the facts of a real GPU, so that
the simulation can be compared with them anywhere.

A recording is a golden file below golden/recorded; MACHINES.md there lists the machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from patchgate.cli.main import end_by_exit_code
from patchgate.cli.options import Folder
from patchgate.cli.parameters import option, options
from patchgate.inputs.devices import PADDING, REAL, load_profile, padding_of
from patchgate.inputs.golden import fold, format_golden, golden_path, read_golden
from patchgate.inputs.matrix import load_matrix
from patchgate.inputs.toml import read_toml
from patchgate.model.errors import UsageError
from patchgate.model.files import read_text, write_atomically
from patchgate.model.paths import DEVICES, display_path
from patchgate.model.records import Case, Observation
from patchgate.runner.run_settings import NAME, load_run

MACHINES = "MACHINES.md"
# The table is the last of a profile's file.
_HEADER = f"\n[{PADDING}]\n"


@click.command()
@options
def record(
    *,
    profile: str = option(
        required=True,
        metavar="NAME",
        help="The device profile that the machine's GPU is.",
    ),
    folder: Folder,
) -> None:
    """Store the facts of a real GPU, to compare the simulation with.

    Reads the last run of `patchgate gate --device cuda`.
    """
    run = load_run(Path(folder) / NAME)
    golden = run.project.golden_folder
    releases = [row.torch for row in load_matrix()]
    for path in record_device(run.store, profile, load_profile(profile)["name"], golden, releases):
        click.echo(f"wrote {display_path(path)}")
    record_padding(run.store, Path(run.project.profiles.get(profile, DEVICES / f"{profile}.toml")))


def record_device(
    observations: Iterable[Observation],
    profile: str,
    name: str,
    golden: Path,
    releases: Sequence[str],
) -> Iterator[Path]:
    """Write recordings of `profile` from observations on a real device called `name`.

    `releases` are all that there are: a range must not reach over one that was never recorded.

    Raises UsageError when nothing was observed on a real device, or on another one.
    """
    # Facts of Dynamo alone name no device: they say nothing about the GPU.
    taken = [
        o
        for o in observations
        if o.case.device == REAL and o.failure is None and "device" in o.environment
    ]
    if not taken:
        raise UsageError(
            "nothing was observed on a real GPU",
            where="record",
            got="no case on device cuda",
            next="patchgate gate PATCH --device cuda",
        )
    others = {o.environment["device"] for o in taken} - {name}
    if others:
        raise UsageError(
            "another device", where="--profile", got=", ".join(others), next=f"{profile} is {name}"
        )
    folder = golden / "recorded"
    for workload in sorted({o.case.workload for o in taken}):
        path = golden_path(workload, profile, folder)
        mine = [_as(profile, o) for o in taken if o.case.workload == workload]
        write_atomically(
            path, format_golden(fold(read_golden(path, workload, profile), mine, releases))
        )
        yield path
    yield _machines(folder, taken)


def record_padding(observations: Iterable[Observation], profile: Path) -> None:
    """Write into a profile's file what its device decided of the matrix products that it timed.

    What is recorded there stays: a timing may come out both ways, and both sides of a comparison
    need the same one. A new product that came out both ways is left out: nobody knows how it will.
    """
    recorded: dict[str, str] = read_toml(profile).get(PADDING) or {}
    decided: dict[str, set[str]] = {}
    for observation in observations:
        for name, value in (
            padding_of(observation.facts).items() if observation.case.device == REAL else ()
        ):
            decided.setdefault(name, set()).add(value)
    decided |= {name: {value} for name, value in recorded.items()}
    lines = [
        f'"{name}" = "{min(values)}"'
        for name, values in sorted(decided.items())
        if len(values) == 1
    ]
    text, header = read_text(profile).partition(_HEADER)[0].rstrip(), _HEADER.strip()
    if lines:
        write_atomically(profile, "\n".join([text, "", header, *lines]) + "\n")


def _as(profile: str, observation: Observation) -> Observation:
    case = observation.case
    renamed = Case(torch=case.torch, device=profile, workload=case.workload, patch=case.patch)
    return Observation(case=renamed, facts=observation.facts, environment=observation.environment)


def _machines(folder: Path, taken: list[Observation]) -> Path:
    """One line for each environment that recordings come from."""
    path = folder / MACHINES
    lines = set(read_text(path).splitlines()[2:]) if path.is_file() else set()
    lines |= {"- " + ", ".join(f"{k} {v}" for k, v in sorted(o.environment.items())) for o in taken}
    write_atomically(
        path, "\n".join(["# Where the recordings were taken", "", *sorted(lines)]) + "\n"
    )
    return path


if __name__ == "__main__":
    end_by_exit_code(record, "record")
