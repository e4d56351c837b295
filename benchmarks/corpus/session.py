"""Judges the cases of the corpus: several at once, on one fork server a torch.

A check that raises is a fault of ours: the case is shown with it, never as green.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.corpus.cases import CorpusCase, tool_of
from benchmarks.corpus.checks import LINT, judge_cell
from benchmarks.corpus.score import CaseResult, Score, lost, score
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import NothingToJudge
from patchgate.checks.machine import judge_sentinel
from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project, project_around
from patchgate.inputs.workloads import workloads_with
from patchgate.lint.findings import Severity
from patchgate.lint.index.release import Release, load, releases
from patchgate.lint.run import lint
from patchgate.model.errors import UsageError
from patchgate.model.paths import ROOT, display_path
from patchgate.model.policy import POLICY, Colour, Kind, Meaning
from patchgate.model.records import Case, Verdict
from patchgate.model.results import Example
from patchgate.report.view import verdict_text
from patchgate.runner.client import Runner, runner_of
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import Servers, running_servers
from patchgate.runs.gate import judge_patch
from patchgate.runs.pool import Ended, carry_out

# code -> the places that its red verdicts name, or what they are about
Places = dict[str, set[str]]


class CorpusSession:
    """Judges one case after the other, with the servers of the torches and the index of lint."""

    def __init__(
        self, rows: dict[str, str], runner: Runner, index: list[Release], servers: Servers
    ) -> None:
        self.rows, self.runner, self.index, self.servers = rows, runner, index, servers

    def sentinel_faults(self) -> list[str]:
        """Why nothing may be believed here; empty when the counters of every torch count."""
        faults = []
        for torch in self.rows:
            for device in Project().judged_devices:
                answer = self.runner.ask(torch, "sentinel", profile=load_profile(device))
                verdict = judge_sentinel(
                    Case(torch=torch, device=device, workload="sentinel"), answer
                )
                if verdict.kind is not Kind.PASS:
                    faults.append(f"{torch} {device}: {verdict.actual}")
        return faults

    def sandbox_parts(self) -> set[str]:
        """Return the parts of the sandbox that confine a patch on every torch here."""
        answers = [
            self.runner.ask(torch, "sentinel", profile=load_profile("cpu")) for torch in self.rows
        ]
        parts = []
        for own in (answer["confinement"] for answer in answers):
            parts.append(
                {*own["namespaces"], *(name for name in ("landlock", "reads") if own[name])}
            )
        return set.intersection(*parts)

    def judge(self, case: CorpusCase) -> CaseResult:
        """The verdicts of one case on every torch; none where something that it needs is missing
        here.
        """
        if case.needs:
            return CaseResult(red={})
        started = time.monotonic()
        red: dict[str, Places] = {torch: {} for torch in self.rows}
        examples: dict[str, Example] = {}
        if LINT in case.cells:
            red = self._lint(case, examples) | {
                torch: {} for torch in self.rows if torch not in releases()
            }
        grey: list[str] = []
        idle: dict[str, list[str]] = {}
        noted: list[Verdict] = []
        judged = 0
        for torch in self.rows:
            context = self._context(case)
            for cell in case.cells:
                try:
                    verdicts = judge_cell(cell, torch, context)
                except NothingToJudge as nothing:
                    idle.setdefault(cell, []).append(f"{torch}: {cell}: {nothing}")
                    continue
                except UsageError as error:
                    grey.append(f"{torch}: {cell}: {error.what}: {error.got}")
                    continue
                except Exception as error:
                    grey.append(f"{torch}: {cell}: {type(error).__name__}: {error}")
                    continue
                judged += bool(verdicts)
                noted += verdicts
                grey += [
                    f"{torch}: {cell}: {v.code} {v.actual}" for v in verdicts if not v.is_judged
                ]
                _add_places(red.setdefault(torch, {}), verdicts)
                for verdict in verdicts:
                    if verdict.colour is Colour.RED:
                        examples.setdefault(verdict.code, _example(case, verdict))
        # One release may be judged for all of them, or be the only one on which the patch runs.
        grey += [
            reason
            for reasons in idle.values()
            if len(reasons) == len(self.rows)
            for reason in reasons
        ]
        return CaseResult(
            red=_sorted(red),
            grey=tuple(grey),
            notes=_codes_of(_notes(noted)),
            reasons=_texts_of(_notes(noted)),
            seconds=time.monotonic() - started,
            judged=judged,
            examples=tuple(examples.values()),
        )

    def judge_whole(self, case: CorpusCase) -> CaseResult:
        """The verdicts of the whole gate, as `patchgate gate FOLDER` gives them, and those of
        lint.
        """
        if case.needs:
            return CaseResult(red={})
        started = time.monotonic()
        examples: dict[str, Example] = {}
        red: dict[str, Places] = self._lint(case, examples) if _expects(case, LINT) else {}
        red |= {torch: red.get(torch, {}) for torch in self.rows}
        about: dict[str, Places] = {torch: {} for torch in self.rows}
        path = Path(case.folder)
        run = replace(
            self.runner.run,
            patch=case.folder,
            project=project_around(path),
            others=case.others,
            folder=str(Path(self.runner.run.folder).parent / "whole" / case.id),
        )
        # One cell at a time: the cases are what is judged next to each other.
        verdicts = judge_patch(run, load_patch(path), workers=1, servers=self.servers)
        for verdict in verdicts:
            if verdict.colour is Colour.RED:
                _add_places(red.setdefault(verdict.torch, {}), [verdict])
                subject = f"{verdict.check} {verdict.subject}"
                about.setdefault(verdict.torch, {}).setdefault(verdict.code, set()).add(subject)
                examples.setdefault(verdict.code, _example(case, verdict))
        return CaseResult(
            red=_sorted(red),
            about=_sorted(about),
            grey=tuple(f"{v.torch}: {v.code} {v.actual}" for v in verdicts if not v.is_judged),
            notes=_codes_of(_notes(verdicts)),
            reasons=_texts_of(_notes(verdicts)),
            seconds=time.monotonic() - started,
            judged=len(verdicts),
            examples=tuple(examples.values()),
        )

    def _context(self, case: CorpusCase) -> CheckContext:
        path = Path(case.folder)
        run = replace(
            self.runner.run,
            patch=case.folder,
            project=project_around(path),
            others=case.others,
            limits=replace(self.runner.run.limits, seconds=case.seconds),
        )
        return CheckContext(
            run, load_patch(path), workloads_with(path, run.project), replace(self.runner, run=run)
        )

    def _lint(self, case: CorpusCase, examples: dict[str, Example]) -> dict[str, Places]:
        report = lint([Path(case.folder)], self.index)
        red: dict[str, Places] = {release: {} for release in report.releases}
        for finding in report.findings:
            if finding.severity is Severity.RED:
                at = {f"{finding.path}:{span.line}" for span in (finding.span, *finding.also)}
                text = (
                    f"{finding.message} [{finding.shown_releases}]"
                    if finding.shown_releases
                    else finding.message
                )
                where, folder = (
                    f"{_below_root(finding.path)}:{finding.span.line}",
                    _below_root(case.folder),
                )
                example = Example(code=finding.code, case=folder, where=where, text=text)
                examples.setdefault(finding.code, example)
                for release in finding.releases or report.releases:
                    red[release].setdefault(finding.code, set()).update(at)
        return red


def _expects(case: CorpusCase, tool: str) -> bool:
    return any(tool_of(code) == tool for expected in case.expected for code in expected.codes)


def _sorted(found: dict[str, Places]) -> dict[str, dict[str, tuple[str, ...]]]:
    return {
        torch: {code: tuple(sorted(at)) for code, at in places.items()}
        for torch, places in found.items()
    }


def _example(case: CorpusCase, verdict: Verdict) -> Example:
    where = _below_root(verdict.where) if verdict.where else ""
    text, folder = verdict_text(verdict), _below_root(case.folder)
    return Example(
        code=verdict.code, case=folder, where=where, text=text, expected=verdict.expected
    )


def _below_root(path: str) -> str:
    """A path as it is in every checkout."""
    absolute = Path(path).resolve()
    return str(absolute.relative_to(ROOT)) if absolute.is_relative_to(ROOT) else absolute.name


def _notes(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The notes, and what this machine cannot run, so that an idle check shows."""
    noted = (Meaning.NOTE, Meaning.OUT_OF_REACH)
    return [verdict for verdict in verdicts if POLICY[verdict.kind] in noted]


def _codes_of(notes: list[Verdict]) -> tuple[str, ...]:
    return tuple(sorted({note.code for note in notes}))


def _texts_of(notes: list[Verdict]) -> tuple[str, ...]:
    return tuple(sorted({f"{note.code} {note.subject}: {note.actual}" for note in notes}))


def _add_places(red: Places, verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.colour is Colour.RED:
            red.setdefault(verdict.code, set()).update(
                [display_path(verdict.where)] if verdict.where else []
            )


@contextmanager
def started_servers(rows: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Settings of `open_session`: the servers that run meanwhile, and the folder of their results,
    which ends too.
    """
    with ExitStack() as stack:
        servers = stack.enter_context(running_servers(rows))
        # A stopped run may still write here while the folder is removed.
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="patchgate-", ignore_cleanup_errors=True)
        )
        yield {"rows": rows, "folder": folder, "servers": servers}


def open_session(settings: dict[str, Any]) -> CorpusSession:
    """A session on servers that run.

    What torch does without a patch is measured once for all cases.
    """
    folder = Path(settings["folder"])
    shared_cache = str(folder / "unpatched")
    run = Run(
        folder=str(folder / "gate"), patch="", rows=settings["rows"], shared_cache=shared_cache
    )
    runner = replace(runner_of(run, settings["servers"]), costs=None)
    index = [load(version) for version in releases()]
    return CorpusSession(settings["rows"], runner, index, settings["servers"])


def judge_cases(
    settings: dict[str, Any],
    cases: list[CorpusCase],
    *,
    workers: int,
    done: Callable[[Score], None],
    whole: bool = False,
) -> list[Score]:
    """The score of every case; `done` gets each as soon as it is there.

    One that was lost has the outcome LOST.

    Those with most cells first, so that none is left to run alone at the end. `whole`: by the whole
    gate.
    """
    session, scores = open_session(settings), dict[str, Score]()

    ordered = sorted(cases, key=lambda case: -len(case.cells))
    judge = session.judge_whole if whole else session.judge
    for event in carry_out(ordered, judge, workers=workers):
        if isinstance(event, Ended):
            case = event.item
            if event.result is not None:
                scores[case.folder] = score(case, event.result, settings["rows"])
            else:
                scores[case.folder] = lost(case, f"{type(event.error).__name__}: {event.error}")
            done(scores[case.folder])
    return [scores[case.folder] for case in cases]
