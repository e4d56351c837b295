"""Promotes what a run observed to golden; nothing is run again.

Only cases that were observed are touched: a partial run removes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from patchgate.inputs.golden import fold, format_golden, golden_path, read_golden
from patchgate.inputs.record_device import REAL
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Command, Observation

HISTORY = "HISTORY.md"
# An unpatched case that hangs or crashes says something about this machine, not about torch.
_NOT_A_RECORD = {Cause.MACHINE, Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.CRASHED}


@dataclass(frozen=True, kw_only=True)
class Change:
    """One golden file."""

    path: Path
    before: str  #: its text as it is; "" when there is no file
    after: str  #: its text once the change is accepted

    @property
    def diff(self) -> str:
        """Unified, without context: every line is a fact that moved."""
        name = shown(self.path)
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), name, name, n=0, lineterm="")
        return "\n".join(lines)


def refuse_unattended(environment: Mapping[str, str]) -> None:
    """Raises UsageError where nobody reads the diff: under CI and inside a pytest-xdist worker."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        if environment.get(name, "").lower() not in ("", "0", "false"):
            raise UsageError(
                "accept is a decision of a person",
                where=f"${name}",
                got=f"{name}={environment[name]}",
                next="run it on your own machine, read the diff, commit golden/",
            )


def plan_changes(observations: Iterable[Observation], releases: Sequence[str], folder: Path) -> list[Change]:
    """The files that promoting `observations` would change."""
    groups: dict[tuple[str, str], list[Observation]] = {}
    for observation in observations:
        if _is_a_record(observation):
            groups.setdefault((observation.case.workload, observation.case.device), []).append(observation)
    changes = []
    for (workload, device), observed in sorted(groups.items()):
        path = golden_path(workload, device, folder)
        after = format_golden(fold(read_golden(path, workload, device), observed, releases))
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        if after != before:
            changes.append(Change(path=path, before=before, after=after))
    return changes


def _is_a_record(observation: Observation) -> bool:
    if observation.case.device == REAL:
        return False  # `patchgate record` keeps those, to hold the simulation to them
    failure = observation.failure
    if failure is None:
        return True
    return failure.cause not in ({Cause.MACHINE} if observation.case.patch else _NOT_A_RECORD)


def write_changes(changes: Sequence[Change], reason: str, folder: Path) -> None:
    """Write every change, and the reason into golden/HISTORY.md."""
    for change in changes:
        write_atomically(change.path, change.after)
    history = folder / HISTORY
    before = history.read_text(encoding="utf-8") if history.is_file() else "# Why golden changed\n\n"
    names = changes[0].path.name if len(changes) == 1 else f"{len(changes)} files"
    write_atomically(history, before + f"- {date.today().isoformat()} {reason} ({names})\n")


def parse_reason(text: str | None) -> str:
    """`text` on one line. Raises UsageError when there is none."""
    reason = " ".join((text or "").split())
    if not reason:
        raise UsageError(
            "a reason is wanted: golden changes are decisions",
            where="--reason",
            got="nothing",
            next=Command(name="accept", arguments=("--reason", "'torch 2.13 fuses the last norm'")),
        )
    return reason
