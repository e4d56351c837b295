"""The last lines of a run in the terminal: the judged cells, the cells that were not judged, the
files, the counts and the exit code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from patchgate.checks.framework.find_checks import REQUIRES, REST, Check, all_checks
from patchgate.inputs.workloads import workloads_with
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Verdict, Workload
from patchgate.model.text import counted
from patchgate.report.next_commands import typed
from patchgate.report.view import MISSING, RunView
from patchgate.runner.run_results import QuickLook
from patchgate.runner.run_settings import Run

# The code of a missing module for which the patch used a stand-in.
_STAND_IN = "PG230"
# A line names at most this many workloads.
_NAMED = 4


class Ending(NamedTuple):
    """The lines around the list of problems."""

    scope: list[str]  #: the cells that were judged, and the cells that were not
    last: list[str]  #: the files of results, the counts and the exit code


def answer_lines(
    run: Run,
    verdicts: Sequence[Verdict],
    view: RunView,
    workloads: Mapping[str, Workload],
    code: int,
    results: Sequence[str] = (),
    kept: int = 0,
) -> Ending:
    """The last lines: the judged cells and the cells that were not judged, the files of results,
    and the counts with the exit code.

    `kept` is the number of answers that were taken from an earlier run of the same patch.
    """
    met, judged_names = _workloads_of(verdicts)
    names = judged_names & {*workloads, *run.workloads}  # some workloads are a check's own
    where = [_missing_line(verdict) for verdict in view.missing]
    where += [f"results: {'; '.join(results)}"] if results else []
    if not verdicts:
        nothing = (
            f"nothing was judged: no workload, device or release was selected; exit code {code}"
        )
        return Ending([], [*where, nothing])
    on = ", ".join(f"{name} ({run.profile(name)['kind']})" for name in run.devices)
    judged = f"judged: {counted(len(names), 'workload')} on {on}; torch {', '.join(view.torches)}"
    missing = "; ".join(_not_judged(run, verdicts, met & {*workloads, *run.workloads}, workloads))
    again = (
        f"not measured again: {counted(kept, 'result')} of the same patch, kept in "
        ".patchgate/patched"
    )
    scope = [judged, *([f"not judged: {missing}"] if missing else []), *([again] if kept else [])]
    if view.stopped:
        return Ending(scope, [*where, f"{count_line(view)} Exit code {code}."])
    if view.quick_look and not view.causes:
        return Ending(scope, [*where, f"exit code {code}", count_line(view)])
    if view.quick_look:
        look = f"QUICK LOOK: judged{share_text(view, view.quick_look)}"
        where = [f"{look}; all of it: {typed(view.quick_look.command)}", *where]
    return Ending(scope, [*where, f"{count_line(view)}; exit code {code}"])


def quick_look_of(run: Run, verdicts: Iterable[Verdict]) -> QuickLook | None:
    """The share of a full gate that this run judged; None if no option left anything out."""
    if not run.is_narrowed:
        return None
    verdicts = list(verdicts)
    met, judged = _workloads_of(verdicts)
    wanted = {*run.premerge, *run.workloads}
    installing = [
        word
        for verdict in verdicts
        if verdict.code in MISSING
        for command in verdict.commands
        for word in command.arguments
        if word.startswith(REQUIRES)
    ]
    checks = [check for check in all_checks().values() if run.asks(check.name, check.family)]
    return QuickLook(
        workloads=_share(judged & wanted, run.premerge),
        unable=len((met - judged) & wanted),
        torches=_share(run.rows, {*run.torches, *run.torches_left_out}),
        devices=_share(run.devices, run.project.judged_devices),
        checks=(len(checks), len(all_checks())),
        without=tuple(_without(run, checks)),
        command=run.whole(installing),
    )


def _without(run: Run, checks: Iterable[Check]) -> Iterator[str]:
    """Yield the checks of a whole gate that the choice of `--workload` leaves out."""
    known = workloads_with(Path(run.patch), run.project) if run.workloads else {}
    kinds, all_kinds = (
        {kind for name in names if name in known for kind in known[name].checks}
        for names in (run.workloads, run.premerge)
    )
    for check in checks if run.workloads else ():
        has_none = "workload" in check.axes and check.workloads in all_kinds - kinds
        is_other = check.workload and check.workload not in run.workloads
        if is_other or (has_none and check.devices(run)):
            yield check.name


def _workloads_of(verdicts: Iterable[Verdict]) -> tuple[set[str], set[str]]:
    """Return the workloads of all verdicts, and the workloads that judged the patch. The rest
    cannot run here, with or without the patch.
    """
    met = [verdict for verdict in verdicts if verdict.kind is not Kind.STOPPED]
    judged = {verdict.case.workload for verdict in met if verdict.kind is not Kind.ASSUMED}
    return {verdict.case.workload for verdict in met}, judged


def _share(judged: Iterable[str], wanted: Iterable[str]) -> tuple[int, int]:
    return len({*judged}), len({*judged, *wanted})


def count_line(view: RunView) -> str:
    """`4 causes, 10 red results, 2539 green, 2 grey notes`; `nothing red` without causes.

    For a narrowed run without problems, the line says how much was judged, and how to judge all.
    """
    if not any(view.counts.values()):
        return "nothing was judged"
    if view.quick_look and not view.causes and not view.stopped:
        return _quick_look_text(view, view.quick_look)
    if view.stopped:
        return _interrupted_text(view)
    red = f"{counted(len(view.causes), 'cause')}, {counted(view.counts[Colour.RED], 'red result')}"
    notes = view.counts[Colour.GREY] - view.unjudged
    grey = ((view.unjudged, "not judged"), (notes, "grey note" + "s" * (notes > 1)))
    none = "nothing red, as the patch changes nothing here" if view.is_idle else "nothing red"
    if view.without_effect or view.missing:
        none = f"nothing red, but {_doubt(view)}"
    counts = [red if view.causes else none, f"{view.counts[Colour.GREEN]} green"]
    return ", ".join([*counts, *(f"{count} {what}" for count, what in grey if count)])


def _interrupted_text(view: RunView) -> str:
    red = counted(len(view.causes), "problem") if view.causes else "nothing red"
    when = (
        f"after {view.done} of {view.done + view.stopped}"
        if view.done is not None
        else f"before {view.stopped}"
    )
    return f"Interrupted {when} checks ({red} so far). Run the same command to resume."


def _quick_look_text(view: RunView, look: QuickLook) -> str:
    """`QUICK LOOK: no problem in 1 of 13 workloads on 1 of 2 releases. Not a gate result; run:
    patchgate gate PATCH`.
    """
    found = "the patch changes nothing; judged" if view.is_idle else "no problem"
    if view.without_effect or view.missing:
        found = f"{_doubt(view)}; judged"
    return (
        f"QUICK LOOK: {found}{share_text(view, look)}. Not a gate result; run: "
        f"{typed(look.command)}"
    )


def _doubt(view: RunView) -> str:
    """The reason why a run without problems proves little."""
    needed = [verdict for verdict in view.missing if verdict.code != _STAND_IN]
    if needed:
        return f"the patch was not judged: it needs what is not installed ({needed[0].code})"
    if view.missing:
        names = ", ".join(verdict.item for verdict in view.missing)
        return f"a stand-in was used for {names}, which is missing ({view.missing[0].code})"
    return _without_effect_text(view)


def _missing_line(verdict: Verdict) -> str:
    """`missing: nosuchpkg (PG230); next: patchgate gate mine.py --requires nosuchpkg`."""
    what = verdict.item if verdict.code == _STAND_IN else verdict.headline
    step = typed(verdict.commands[0]) if verdict.commands else verdict.advice
    return f"missing: {what} ({verdict.code}); next: {step}"


def _without_effect_text(view: RunView) -> str:
    """A sentence for a patch that acted in no judged workload. It names the check in which the
    patch acted, if there is one.
    """
    acts = f", only for the {view.acts_in}" * bool(view.acts_in)
    return f"the patch acted in no judged workload{acts} (PG518)"


def share_text(view: RunView, look: QuickLook) -> str:
    """The share that was judged: ` in 1 of 13 workloads on 1 of 2 releases`."""
    sorts = ((" by", look.checks, "checks"), (" on", look.devices, "devices"))
    narrowed = [
        f"{word} {judged} of {wanted} {noun}"
        for word, (judged, wanted), noun in sorts
        if judged < wanted
    ]
    judged, wanted = look.workloads
    # A check of the patch alone has no workloads.
    unable = f" ({look.unable} cannot run here)" * bool(look.unable)
    of_workloads = f" in {judged} of {wanted} workloads{unable}"
    parts = [*[of_workloads] * bool(judged or look.unable), *narrowed]
    where = "".join([*parts, f" on {look.torches[0]} of {look.torches[1]} releases"])
    where += f", {view.unjudged} not judged" * bool(view.unjudged)
    more = f" and {len(look.without) - _NAMED} more" * (len(look.without) > _NAMED)
    names = ", ".join(look.without[:_NAMED])
    return where + f", without the checks {names}{more}" * bool(names)


def _not_judged(
    run: Run, verdicts: Sequence[Verdict], names: Collection[str], workloads: Mapping[str, Workload]
) -> Iterator[str]:
    stopped = [verdict for verdict in verdicts if verdict.kind is Kind.STOPPED]
    if stopped:
        yield f"{counted(len(stopped), 'check')} ({stopped[0].brief})"
    if not any(run.profile(name)["kind"] == "real" for name in run.devices):
        yield "time and memory on a GPU (`--device cuda`)"
    unable = sorted({*names} - _workloads_of(verdicts)[1])
    if unable:
        more = f" and {len(unable) - _NAMED} more" * (len(unable) > _NAMED)
        yield f"{', '.join(unable[:_NAMED])}{more}, which cannot run here with or without the patch"
    unmeasured = [verdict.actual for verdict in verdicts if verdict.fact == REST]
    left = workloads.keys() - names
    of_gate = left if run.workloads and run.nightly else left & {*run.premerge}
    if run.workloads and of_gate:
        skipped = counted(len(of_gate), "other workload")
        yield f"{skipped} of a whole gate (this run has `--workload`)"
    rest = len(left - of_gate)
    if rest and run.project.chosen_workloads:
        yield f"{counted(rest, 'workload')} that `workloads` of the table leaves out"
    elif rest and not run.nightly:
        yield f"{counted(rest, 'workload')} that only `--nightly` judges"
    if run.checks:
        others = [
            check.name
            for check in all_checks().values()
            if not check.first and not run.asks(check.name, check.family)
        ]
        yield f"{len(others)} other checks: {', '.join(others)} (this run has `--check`)"
    if run.devices_left_out:
        yield f"{', '.join(run.devices_left_out)} (this run has `--device`)"
    if run.problems:
        yield f"torch {', '.join(run.problems)}, which could not be installed"
    yield from unmeasured
