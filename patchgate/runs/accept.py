"""Writes the observed facts of a run into golden: these facts are then accepted.

Only cases that were observed are touched: a partial run removes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from patchgate.checks.framework.blame import Fault, fault_of
from patchgate.inputs.devices import REAL
from patchgate.inputs.golden import (
    GoldenFile,
    accepted_path,
    fold,
    format_golden,
    golden_path,
    load_accepted,
    load_golden,
    own_part,
    values_by_range,
    values_by_release,
    with_accepted,
)
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project, find_project
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.facts import format_value
from patchgate.model.files import read_text, write_atomically
from patchgate.model.paths import display_path
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Command, Observation, Verdict, record
from patchgate.runner.cache_keys import text_digest
from patchgate.runner.journal import Journal
from patchgate.runner.run_settings import VERDICTS, Run, load_verdicts

HISTORY = "HISTORY.md"
# The checks of a workload that compare its facts.
_OF_FACTS = {"kernels", "shapes"}


@record
class Change:
    """The change of one golden file."""

    path: Path
    after: str  #: its text once the change is accepted
    #: a line for each fact that is new, changed or gone: `mine  loads  2.11.0  6 -> 4`
    facts: tuple[str, ...]


def is_edited(run: Run) -> bool:
    """True if the patch was edited since the run judged it."""
    path = Path(run.patch)
    return bool(run.digest) and path.exists() and text_digest(load_patch(path)) != run.digest


def refuse_edited(run: Run) -> None:
    """Raises UsageError if the patch was edited after the run, whose facts are those of the old
    text.
    """
    if is_edited(run):
        raise UsageError(
            "the patch was edited after it was judged",
            where=display_path(Path(run.patch)),
            got=f"another text than the one whose results are in {display_path(Path(run.folder))}",
            next=run.again,
        )


def refuse_failing(run: Run) -> None:
    """Raises UsageError if the patch did not run: later runs must not be compared with its
    failures.
    """
    for verdict in verdicts_of(run):
        if verdict.code == "PG210" and verdict.colour is Colour.RED:
            raise UsageError(
                "the patch does not run: no facts to accept",
                where=verdict.where or display_path(Path(run.patch)),
                got=verdict.actual,
                next="correct the patch, judge it again, then accept",
            )


def verdicts_of(run: Run) -> list[Verdict]:
    """Return the verdicts of a run; an empty list if the run has written none."""
    return load_verdicts(Path(run.folder)) if Path(run.folder, VERDICTS).is_file() else []


def observations_of(run: Run) -> list[Observation]:
    """The observations of a run with which later runs are compared. Workloads whose facts no check
    compares are left out.
    """
    known = workloads_with(Path(run.patch), project_of(run))
    return [
        each
        for each in run.store
        if each.case.workload not in known or _OF_FACTS & {*known[each.case.workload].checks}
    ]


def refuse_stopped(run: Run) -> None:
    """Raises UsageError if the run ended before it had judged everything: a person who accepts it
    would not know what is missing.
    """
    verdicts = verdicts_of(run)
    left = sum(verdict.kind is Kind.STOPPED for verdict in verdicts)
    if left:
        done = len(Journal(Path(run.folder)).cells())
        raise UsageError(
            f"the run stopped after {done} of {done + left} checks",
            where=display_path(Path(run.folder)),
            got="facts of the checks that had ended by then",
            next=run.again,
        )


def refuse_unobserved(observed: Sequence[Observation], run: Run) -> None:
    """Raises UsageError if no case gave facts that golden could record."""
    if not any(map(_is_a_record, observed)):
        raise UsageError(
            "the last run observed nothing: no facts to accept",
            where=display_path(Path(run.folder)),
            got=f"{len(observed)} cases that were observed",
            next=run.again,
        )


def project_of(run: Run) -> Project:
    """The project of a run, or the project of the working directory if the results come from
    another machine.

    Raises UsageError if the results were copied from another folder of this machine, or name a
    folder around this project: accepting them would change golden files of another project.
    """
    root, here = Path(run.project.root).resolve(), Path.cwd().resolve()
    if root.is_relative_to(here) or root == Path(find_project(here).root).resolve():
        return run.project
    if root.exists():
        raise UsageError(
            "results of another project",
            where="--folder",
            got=f"of {root}",
            next=f"judge again here, or cd {root} first",
        )
    return find_project(here)


def refuse_unattended(environment: Mapping[str, str]) -> None:
    """Raises UsageError if no person reads the diff: under CI and inside a pytest-xdist worker."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        if environment.get(name, "").lower() not in ("", "0", "false"):
            raise UsageError(
                "accepting is a decision of a person, and this is a CI job",
                where=f"${name}",
                got=f"{name}={environment[name]}",
                next="run it on your own machine, read the diff, commit the golden folder",
            )


def plan_changes(
    observations: Sequence[Observation],
    releases: Sequence[str],
    folder: Path,
    narrow: Collection[str] = (),
) -> list[Change]:
    """Return the files that promoting `observations` would change; a case that was not observed
    keeps its facts. For the patches in `narrow`, other workloads were not judged.
    """
    groups: dict[tuple[str, str], list[Observation]] = {}
    recorded = [*filter(_is_a_record, observations)]
    for observation in recorded:
        case = observation.case
        groups.setdefault((case.workload, case.device), []).append(observation)
    changes = []
    for (workload, device), observed in sorted(groups.items()):
        path = golden_path(workload, device, folder)
        before = load_golden(workload, device, folder)
        after = fold(before, observed, releases)
        text = format_golden(own_part(after, folder, releases))
        there = read_text(path) if path.is_file() else format_golden(GoldenFile(workload, device))
        if text != there:
            facts = tuple(_changed_facts(before, after, releases))
            changes.append(Change(path=path, after=text, facts=facts))
    # From now on, each change of these facts is red.
    before = load_accepted(folder)
    after = with_accepted(before, recorded, releases, narrow)
    if facts := tuple(_changed_facts(before, after, releases)):
        text = format_golden(after)
        changes.append(Change(path=accepted_path(folder), after=text, facts=facts))
    return changes


def _changed_facts(before: GoldenFile, after: GoldenFile, releases: Sequence[str]) -> Iterator[str]:
    for section in sorted({*before.sections, *after.sections}):
        old, new = before.sections.get(section, {}), after.sections.get(section, {})
        for fact in sorted({*old, *new}):
            was, now = (values_by_release(one.get(fact, {}), releases) for one in (old, new))
            pairs = {torch: (was.get(torch), now.get(torch)) for torch in {**was, **now}}
            moved = {torch: pair for torch, pair in pairs.items() if pair[0] != pair[1]}
            for span, pair in values_by_range(moved, releases).items():
                known = "" if pair[0] is None else f"{format_value(pair[0])} -> "
                yield f"{section}  {fact}  {span}  {known}{format_value(pair[1], 'nothing')}"


def _is_a_record(observation: Observation) -> bool:
    if observation.case.device == REAL:
        return False  # benchmarks/record.py records these, to check the simulation
    sides = observation.failure, None
    # A case that hangs or crashes without a patch shows the state of this machine, not of torch.
    return fault_of(*(sides[::-1] if observation.case.patch else sides)) is not Fault.MACHINE


def write_changes(
    changes: Sequence[Change], reason: str, folder: Path, patches: Iterable[str] = ()
) -> None:
    """Write the reason and the patches into golden/HISTORY.md, then write every change. If the
    process is killed, a call with the same reason on the same day writes no second entry.
    """
    history = folder / HISTORY
    before = read_text(history) if history.is_file() else "# Why golden changed\n\n"
    files = changes[0].path.name if len(changes) == 1 else f"{len(changes)} files"
    names = ", ".join([*patches, files])
    entry = f"- {date.today().isoformat()} {reason} ("
    if not before.splitlines()[-1].startswith(entry):
        write_atomically(history, f"{before}{entry}{names})\n")
    for change in changes:
        write_atomically(change.path, change.after)


def parse_reason(text: str | None) -> str:
    """`text` on one line. Raises UsageError when there is none."""
    reason = " ".join((text or "").split())
    if not reason:
        raise UsageError(
            "no reason given: HISTORY.md records why golden changed",
            where="--reason",
            got="nothing",
            next=Command(name="accept", arguments=("--reason", "'torch 2.13 fuses the last norm'")),
        )
    return reason
