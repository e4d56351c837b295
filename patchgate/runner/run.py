"""One run of the gate: which patch, which rows and devices, which limits, and where its results go.

Decides what is written between the command, pytest and the report. Runs nothing.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgate.inputs.matrix import load_matrix
from patchgate.model.command_line import as_typed, through_nox
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import shown
from patchgate.model.records import Case, Verdict
from patchgate.model.serialization import from_dict, to_dict
from patchgate.runner.results import ResultStore

FOLDER = "build/gate"
DEVICES = ("h200", "cpu")
NAME = "run.json"
VERDICTS = "verdicts.json"
TIMES = "times.json"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one case may use: wall seconds, and bytes of private memory on top of a warm torch."""

    seconds: float = 60.0
    bytes: int = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Run:
    """`rows` maps a torch release to its interpreter, `problems` one that has none to the reason.

    `nightly`: every workload, and what each kernel needs once compiled; otherwise those of pre-merge.
    `shelf` is a folder of what runs of the same content share: what torch does unpatched, and with `reuse`
    what it did with the patch too; None measures everything.
    `binaries` is where compiled C++ is found again; None: beside the results.
    `others` are patches that are installed beside this one.
    """

    folder: str
    patch: str
    rows: dict[str, str]
    problems: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = DEVICES
    workloads: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    nightly: bool = False
    limits: Limits = field(default_factory=Limits)
    shelf: str | None = None
    binaries: str | None = None
    reuse: bool = False

    @property
    def torches(self) -> tuple[str, ...]:
        return (*self.rows, *self.problems)

    @property
    def store(self) -> ResultStore:
        return ResultStore(Path(self.folder) / "observations")

    @property
    def again(self) -> str:
        """The command that repeats this run, as it is typed here. nox gives the interpreters by itself."""
        words = ["nox -s gate --" if through_nox() else "patchgate gate", _quoted(self.patch)]
        if not through_nox():
            words += [f"--row {torch}={shlex.quote(python)}" for torch, python in self.rows.items()]
            words += [f"--problem {torch}={shlex.quote(why)}" for torch, why in self.problems.items()]
        elif set(self.torches) != {row.torch for row in load_matrix() if "premerge" in row.tags}:
            words += [f"--torch {torch}" for torch in self.torches]
        words += [f"--device {name}" for name in self.devices if self.devices != DEVICES]
        words += [f"--workload {name}" for name in self.workloads]
        words += [f"--with {_quoted(other)}" for other in self.others]
        words += ["--nightly"] * self.nightly
        words += [] if self.reuse else _elsewhere(Path(self.folder))
        return " ".join(words)

    def case(self, torch: str, device: str, workload: str, patch: str | None) -> Case:
        return Case(torch=torch, device=device, workload=workload, patch=patch)


def save_run(run: Run) -> Path:
    path = Path(run.folder) / NAME
    write_atomically(path, json.dumps(to_dict(run), indent=1) + "\n")
    return path


def load_run(path: Path) -> Run:
    """The run of the folder that holds `path`, also when it was carried out elsewhere.

    Raises UsageError when there is none, with the command that makes one.
    """
    return replace(from_dict(Run, _read(path), where=str(path)), folder=str(path.resolve().parent))


def save_verdicts(folder: Path, verdicts: list[Verdict]) -> None:
    # Whoever accepts must take what this run observed.
    accept = " ".join(["nox -s accept --", *_elsewhere(folder), "--reason"])
    typed = [replace(v, next=as_typed(v.next.replace("nox -s accept -- --reason", accept))) for v in verdicts]
    ordered = sorted(typed, key=lambda v: (v.check, v.subject, v.torch, v.code))
    text = json.dumps({"schema": 1, "verdicts": [to_dict(verdict) for verdict in ordered]}, indent=1)
    write_atomically(folder / VERDICTS, text + "\n")


def load_verdicts(folder: Path) -> list[Verdict]:
    """Raises UsageError when the run has left no verdicts."""
    path = folder / VERDICTS
    data = _read(path)
    listed = data.get("verdicts") if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise UsageError("no list of verdicts", where=str(path), got=repr(data)[:80], next="run the gate again")
    return [from_dict(Verdict, entry, where=str(path)) for entry in listed]


def _quoted(path: str) -> str:
    return shlex.quote(shown(path))


def _elsewhere(folder: Path) -> list[str]:
    """The option of a run whose results are not where they are looked for."""
    return [] if shown(folder) == FOLDER else [f"--folder {_quoted(str(folder))}"]


def _read(path: Path) -> object:
    try:
        data: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            "no run to read",
            where=str(path),
            got=str(error),
            next="nox -s gate -- PATCH",
        ) from None
    return data
