"""The last lines of a run in the terminal: what was judged, what was not, the files, the counts and the exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from patchgate.checks.framework.find_checks import all_checks
from patchgate.model.records import Kind, Verdict, Workload
from patchgate.model.text import counted
from patchgate.report.next_commands import typed
from patchgate.report.view import RunView
from patchgate.runner.run_settings import Run


def answer_lines(
    run: Run, verdicts: Sequence[Verdict], view: RunView, workloads: Mapping[str, Workload], code: int
) -> list[str]:
    """What was judged, what was not, and the answer with the exit code."""
    judged_names = {verdict.case.workload for verdict in verdicts if verdict.kind is not Kind.STOPPED}
    names = judged_names & {*workloads, *run.workloads}  # one that is named may be a check's own
    if not verdicts:
        return [f"nothing was judged: no workload, device or release was selected; exit code {code}"]
    on = ", ".join(f"{name} ({run.profile(name)['kind']})" for name in run.devices)
    judged = f"judged: {counted(len(names), 'workload')} on {on}; torch {', '.join(view.torches)}"
    missing = "; ".join(_not_judged(run, verdicts, names, workloads))
    return [judged, *([f"not judged: {missing}"] if missing else []), f"{view.summary}; exit code {code}"]


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
    if run.problems:
        yield f"torch {', '.join(run.problems)}, which could not be installed"
