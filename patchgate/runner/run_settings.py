"""One run of the gate: which patch, releases and devices, which limits, and the folder of its
results and observations.

Commands pass a run to each other as files in its folder.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from patchgate.inputs.devices import load_profile
from patchgate.inputs.project import Project
from patchgate.inputs.torch_range import default_releases
from patchgate.model.errors import UsageError
from patchgate.model.exit_code import is_partial
from patchgate.model.files import read_result, refuse_links, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Command, Observation, Verdict, record
from patchgate.model.serialization import from_dict, parse_json, to_dict

FOLDER = ".patchgate/gate"
NAME = "run.json"
VERDICTS = "verdicts.json"
OBSERVATIONS = "observations"
# Options that leave out something that is judged before a merge.
_NARROWING = (
    *("--torch ", "--problem ", "--device ", "--model ", "--workload ", "--check "),
    *("--seed ", "--minutes "),
)


@record
class Limits:
    """The limits of one case: wall seconds, and bytes of private memory on top of a warm torch."""

    seconds: float = 60.0
    bytes: int = 1 << 30


@record
class Run:
    """One run of the gate over one patch."""

    folder: str  #: where the results go
    patch: str  #: the path that was given
    rows: dict[str, str]  #: torch release -> its interpreter
    project: Project = field(default_factory=Project)  #: what the project's table says
    problems: dict[str, str] = field(
        default_factory=dict
    )  #: torch release without an interpreter -> why
    devices: tuple[str, ...] = Project().judged_devices  #: names of profiles
    workloads: tuple[str, ...] = ()  #: only these; empty: all
    premerge: tuple[str, ...] = ()  #: the workloads that are judged if no option leaves any out
    checks: tuple[str, ...] = ()  #: only these, by name or by the name of a family; empty: all
    others: tuple[str, ...] = ()  #: patches that are installed with this one
    requires: tuple[str, ...] = ()  #: packages next to torch that the table does not name
    strict: bool = False  #: notes are red
    #: judge every workload, not only the pre-merge ones, and the resources of each compiled kernel
    nightly: bool = False
    limits: Limits = field(default_factory=Limits)
    #: folder of the measurements that runs of the same content share; None: everything is measured
    shared_cache: str | None = None
    #: Folder of what was measured with the patch; None: no such measurement is kept. CI shares only
    #: `shared_cache`.
    patched_cache: str | None = None
    #: folder where compiled C++ is kept for reuse; None: next to the results
    binaries: str | None = None
    require_sandbox: bool = False  #: a patch is run in a complete sandbox, or not at all
    #: a job of a sweep or a search: no command names its folder, and both sides use `shared_cache`
    is_job: bool = False
    watch: str = ""  #: name of the `--watch` to which this judgement belongs
    #: the environments are found by their releases: by nox, or in the user's cache
    by_release: bool = False
    #: Decisions of a real device about matrix products that it timed. They override the decisions
    #: in the profile of a simulated device.
    padding: dict[str, str] = field(default_factory=dict)
    seed: int = 0  #: seed of random programs, which replace all other samples; 0: none
    #: digest of the patch's text as it was judged; empty if nothing compares it later
    digest: str = ""

    @property
    def torches(self) -> tuple[str, ...]:
        return (*self.rows, *self.problems)

    @property
    def narrowed(self) -> str:
        """The options that leave out cases in which the patch may be called; empty if there are
        none.
        """
        options = (
            ("--workload", self.workloads),
            ("--device", self.devices if self.devices_left_out else ()),
        )
        return " ".join(f"{option} {','.join(names)}" for option, names in options if names)

    @property
    def devices_left_out(self) -> tuple[str, ...]:
        """Devices of the project that `--device` leaves out."""
        return tuple(name for name in self.project.judged_devices if name not in self.devices)

    @property
    def torches_left_out(self) -> tuple[str, ...]:
        """The project's default releases that this run leaves out."""
        return tuple(torch for torch in default_releases(self.project) if torch not in self.torches)

    @property
    def is_narrowed(self) -> bool:
        """True if an option leaves out something that is judged before a merge.

        A job is never narrowed: it is meant to judge only a part.
        """
        by_name = {*self.premerge} - {*self.workloads} if self.workloads else ()
        return not self.is_job and bool(
            self.checks or by_name or self.devices_left_out or self.torches_left_out
        )

    def asks(self, check: str, family: str) -> bool:
        """True unless the run is narrowed to other checks."""
        return not self.checks or not {check, family}.isdisjoint(self.checks)

    @property
    def store(self) -> ResultStore:
        return ResultStore(Path(self.folder) / OBSERVATIONS)

    def profile(self, device: str) -> dict[str, Any]:
        """The profile of a device: the project's, or one that comes with patchgate."""
        profile = load_profile(device, self.project.profiles)
        if self.padding:
            profile["padding"] = {**profile.get("padding", {}), **self.padding}
        return profile

    @property
    def again(self) -> Command:
        """The command that repeats this run."""
        words = [_quoted(self.patch)]
        if not self.by_release:
            words += [f"--row {torch}={shlex.quote(python)}" for torch, python in self.rows.items()]
            words += [
                f"--problem {torch}={shlex.quote(why)}" for torch, why in self.problems.items()
            ]
        elif set(self.torches) != {*default_releases(self.project)}:
            words += [f"--torch {torch}" for torch in self.torches]
        words += [
            f"--device {name}"
            for name in self.devices
            if self.devices != self.project.judged_devices
        ]
        words += [
            f"--model {_quoted(str(self.project.at(name)))}"
            for name in self.project.models
            if self.workloads and name.endswith(".toml")  # models of the table are judged anyway
        ]
        words += [f"--workload {name}" for name in self.workloads]
        if self.seed:
            words += [f"--seed {self.seed}", "--minutes 0"]
            return Command(name="fuzz", arguments=tuple(words), is_again=True)
        words += [f"--check {','.join(self.checks)}"] * bool(self.checks)
        words += [f"--with {_quoted(other)}" for other in self.others]
        words += [f"--requires {shlex.quote(each)}" for each in self.requires]
        words += ["--strict"] * self.strict + ["--nightly"] * self.nightly
        words += ["--require-sandbox"] * self.require_sandbox
        if self.limits.seconds != Limits.seconds:
            words.append(f"--time-limit {self.limits.seconds:g}")
        if self.limits.bytes != Limits.bytes:
            words.append(f"--memory-limit {self.limits.bytes >> 20}")
        own = Path(self.folder)
        # Each of several patches that were judged at once has a folder of its own.
        words += [] if self.is_job or display_path(own.parent) == FOLDER else _elsewhere(own)
        return Command(name="gate", arguments=tuple(words), is_again=True)

    def whole(self, installing: Iterable[str] = ()) -> Command:
        """The command of this run without the options that leave something out, and with the
        options `installing`, which install what is missing. `--row` is dropped too if a release was
        left out or if something is to be installed: nothing is installed for a given interpreter.
        """
        left_out = [*_NARROWING, "--row "] if self.torches_left_out or installing else _NARROWING
        words = [word for word in self.again.arguments if not word.startswith(tuple(left_out))]
        return Command(name="gate", arguments=tuple(dict.fromkeys([*words, *installing])))

    @property
    def accept(self) -> Command:
        """The command that records this run's observations as golden."""
        return Command(
            name="accept", arguments=(*_elsewhere(Path(self.folder)), "--reason", "'...'")
        )


def runs_in(folder: Path) -> list[Run]:
    """The last run in a folder, or the runs of several patches, each in a folder of its own.

    Raises UsageError if there is no run, and names the command that makes one.
    """
    found = [] if (folder / NAME).is_file() else sorted(folder.glob(f"[!.]*/{NAME}"))
    return [load_run(path) for path in found or [folder / NAME]]


def own_environment() -> dict[str, str]:
    """Return this interpreter by its torch release, read from metadata: torch is never imported."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(
            "no torch to judge on",
            where="--row",
            got="no row, and no torch next to this patchgate",
            next="--row 2.11.0=path/to/python; in a checkout of patchgate, nox -s gate makes the "
            "environments",
        ) from None
    return {version.partition("+")[0]: sys.executable}


def save_run(run: Run) -> Path:
    path = Path(run.folder) / NAME
    write_atomically(path, json.dumps(to_dict(run), indent=1) + "\n")
    return path


def load_run(path: Path) -> Run:
    """The run of the folder that holds `path`, even if another machine carried it out.

    Raises UsageError if there are links among the results, or if there is no run; the error then
    names the command that makes one.
    """
    folder = path.parent.resolve()
    refuse_links(folder)
    run = replace(from_dict(Run, _read(path), where=str(path)), folder=str(folder))
    for torch in run.torches:
        from_dict(Case, {"torch": torch}, where=str(path))
    return run


def save_verdicts(folder: Path, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Sort the verdicts, make their commands accept the observations of this run, write them and
    return them.
    """
    located = (accepting_from(folder, verdict) for verdict in verdicts)
    ordered = sorted(located, key=lambda v: (v.check, v.subject, v.torch, v.code))
    lines = ",\n".join(map(verdict_json, ordered))  # an indent would take five times as long
    write_atomically(folder / VERDICTS, f'{{"schema": 3, "verdicts": [\n{lines}\n]}}\n')
    return ordered


@lru_cache(maxsize=4096)
def verdict_json(verdict: Verdict) -> str:
    """A verdict in the form of the journal and of verdicts.json."""
    return json.dumps(to_dict(verdict))


def accepting_from(folder: Path, verdict: Verdict) -> Verdict:
    """A verdict whose commands accept the observations of the run in this folder."""
    elsewhere = tuple(_elsewhere(folder))
    return replace(
        verdict, commands=tuple(_accepting(command, elsewhere) for command in verdict.commands)
    )


def load_verdicts(folder: Path) -> list[Verdict]:
    """Load the verdicts. Raises UsageError if the run has left none."""
    path = folder / VERDICTS
    data = _read(path)
    listed = data.get("verdicts") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        got = repr(data)[:80]
        raise UsageError("no list of results", where=str(path), got=got, next="run the gate again")
    return [from_dict(Verdict, entry, where=str(path)) for entry in listed]


def is_complete(folder: Path) -> bool:
    """True if a run in this folder ended with every cell judged."""
    try:
        return not is_partial(load_verdicts(folder))
    except UsageError:
        return False


def _accepting(command: Command, elsewhere: tuple[str, ...]) -> Command:
    if command.name != "accept" or "--folder" in " ".join(command.arguments):
        return command
    return replace(command, arguments=(*elsewhere, *command.arguments))


def _quoted(path: str) -> str:
    return shlex.quote(display_path(path))


def _elsewhere(folder: Path) -> list[str]:
    """The option that names a folder of results other than the default."""
    return [] if display_path(folder) == FOLDER else [f"--folder {_quoted(str(folder))}"]


def _read(path: Path) -> object:
    try:
        data: object = parse_json(read_result(path))
    except (OSError, ValueError) as error:
        raise UsageError(
            "no run to read",
            where=str(path),
            got=(error.strerror if isinstance(error, OSError) else None) or str(error),
            next=Command(name="gate", arguments=("PATCH",)),
        ) from None
    return data


@dataclass(frozen=True)
class ResultStore:
    """A folder of observations by case."""

    folder: Path

    def _path(self, case: Case) -> Path:
        return self.folder / f"{case.id}.json"

    def load(self, case: Case) -> Observation | None:
        path = self._path(case)
        return _observation_in(path) if path.is_file() else None

    def save(self, observation: Observation) -> None:
        text = json.dumps(to_dict(observation), indent=1, sort_keys=True)
        write_atomically(self._path(observation.case), text + "\n")

    def remove(self, case: Case) -> None:
        self._path(case).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Observation]:
        return (_observation_in(path) for path in sorted(self.folder.glob("*.json")))


def _observation_in(path: Path) -> Observation:
    try:
        data = parse_json(read_result(path))
    except (OSError, ValueError) as error:
        raise UsageError(
            "not an observation", where=str(path), got=str(error), next="run the gate again"
        ) from None
    observation = from_dict(Observation, data, where=str(path))
    if not observation.case.torch:
        raise UsageError("facts of no release", where=str(path), next="run the gate again")
    return observation
