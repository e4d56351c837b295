"""The last lines of a run in the terminal: what was judged, what was not, the files, the counts and the exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from patchgate.checks.framework.find_checks import all_checks
from patchgate.model.records import Colour, Kind, Verdict, Workload
from patchgate.model.text import counted
from patchgate.report.next_commands import typed
from patchgate.report.view import RunView
from patchgate.runner.run_settings import Run


def answer_lines(
    run: Run,
    verdicts: Sequence[Verdict],
    view: RunView,
    workloads: Mapping[str, Workload],
    code: int,
    results: Sequence[str] = (),
    kept: int = 0,
) -> list[str]:
    """What was judged, what was not, the files of results, and the counts with the exit code.

    `kept` answers are those of an earlier run of the same patch.
    """
    judged_names = {verdict.case.workload for verdict in verdicts if verdict.kind is not Kind.STOPPED}
    names = judged_names & {*workloads, *run.workloads}  # one that is named may be a check's own
    where = [f"results: {'; '.join(results)}"] if results else []
    if not verdicts:
        return [*where, f"nothing was judged: no workload, device or release was selected; exit code {code}"]
    on = ", ".join(f"{name} ({run.profile(name)['kind']})" for name in run.devices)
    judged = f"judged: {counted(len(names), 'workload')} on {on}; torch {', '.join(view.torches)}"
    missing = "; ".join(_not_judged(run, verdicts, names, workloads))
    again = f"not measured again: {counted(kept, 'answer')} of the same patch, kept in .patchgate/patched"
    lines = [judged, *([f"not judged: {missing}"] if missing else []), *([again] if kept else []), *where]
    return [*lines, f"{count_line(view)}; exit code {code}"]


def count_line(view: RunView) -> str:
    """`4 causes, 10 red verdicts, 2539 green, 2 grey notes`; `nothing red` where there is no cause."""
    red = f"{counted(len(view.causes), 'cause')}, {counted(view.counts[Colour.RED], 'red verdict')}"
    notes = view.counts[Colour.GREY] - view.unjudged
    grey = ((view.unjudged - view.stopped, "not judged"), (notes, "grey note" + "s" * (notes > 1)))
    partial = [f"PARTIAL RUN, {view.stopped} cells not judged"] if view.stopped else []
    counts = [red if view.causes else "nothing red", f"{view.counts[Colour.GREEN]} green"]
    return ", ".join([*partial, *counts, *(f"{count} {what}" for count, what in grey if count)])


def _not_judged(
    run: Run, verdicts: Sequence[Verdict], names: Collection[str], workloads: Mapping[str, Workload]
) -> Iterator[str]:
    stopped = [verdict for verdict in verdicts if verdict.kind is Kind.STOPPED]
    if stopped:
        reason = stopped[0].actual.removeprefix("not judged: ")
        yield f"{len(stopped)} cells ({reason}; it goes on there with {typed(run.again)})"
    if not any(run.profile(name)["kind"] == "real" for name in run.devices):
        yield "time and memory on a GPU (`--device cuda`)"
    rest = len(workloads.keys() - names)
    if run.workloads:
        yield f"{rest} other workloads (this run has `--workload`)"
    elif rest and run.project.chosen_workloads:
        yield f"{rest} workloads that `workloads` of the table leaves out"
    elif rest and not run.nightly:
        yield f"{rest} workloads that only `--nightly` judges"
    if run.checks:
        others = [check.name for check in all_checks().values() if not {check.name, check.family} & {*run.checks}]
        yield f"{len(others)} other checks: {', '.join(others)} (this run has `--check`)"
    if run.devices_left_out:
        yield f"{', '.join(run.devices_left_out)} (this run has `--device`)"
    if run.problems:
        yield f"torch {', '.join(run.problems)}, which could not be installed"
