"""Runs the cases of the corpus on the torch rows that there are, one fork server a row for all of them.

Decides the order and what two cores do at once. Refuses to judge: cells give
verdicts, `score` compares them with what a case expects.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks.corpus.cases import CorpusCase
from benchmarks.corpus.checks import judge_cell
from benchmarks.corpus.remembering import Remembering
from benchmarks.corpus.score import Found, Red, Score, score
from patchgate.checks.context import CheckContext
from patchgate.checks.machine import judge_sentinel
from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import workloads_with
from patchgate.lint.findings import Severity
from patchgate.lint.index.release import Release, load, releases
from patchgate.lint.run import lint
from patchgate.model.paths import shown
from patchgate.model.records import Case, Colour, Kind, Verdict
from patchgate.runner.client import Runner
from patchgate.runner.run import Limits, Run
from patchgate.runner.server import start_server


class Board:
    """The servers of the rows, and what one case finds on them."""

    def __init__(self, rows: dict[str, str], runner: Runner, index: list[Release]) -> None:
        self.rows, self.runner, self.index = rows, runner, index

    def sentinels(self) -> list[str]:
        """Why nothing may be believed here; empty when every row counts rightly."""
        told = []
        for torch in self.rows:
            for device in ("h200", "cpu"):
                answer = self.runner.ask(torch, "sentinel", profile=load_profile(device))
                verdict = judge_sentinel(Case(torch=torch, device=device, workload="sentinel"), answer)
                told += [] if verdict.kind is Kind.PASS else [f"{torch} {device}: {verdict.actual}"]
        return told

    def judge(self, case: CorpusCase) -> Score:
        """One case on every row. What raises in a cell is a fault of ours, and said as such."""
        started = time.monotonic()
        if case.needs:
            return score(case, Found(red={}), self.rows)
        red: dict[str, Red] = {torch: {} for torch in self.rows}
        if "lint" in case.cells:
            red = self._linted(case) | {torch: {} for torch in self.rows if torch not in releases()}
        grey: list[str] = []
        judged = 0
        for torch in self.rows:
            context = self._context(case)
            for cell in case.cells:
                try:
                    verdicts = judge_cell(cell, torch, context)
                except Exception as error:
                    grey.append(f"{torch}: {cell}: {type(error).__name__}: {error}")
                    continue
                judged += bool(verdicts)
                grey += [f"{torch}: {cell}: {v.code} {v.actual}" for v in verdicts if v.colour is Colour.GREY]
                _collect(red.setdefault(torch, {}), verdicts)
        seconds = time.monotonic() - started
        return score(case, Found(red=red, grey=tuple(grey), seconds=seconds, judged=judged), self.rows)

    def _context(self, case: CorpusCase) -> CheckContext:
        limits = replace(self.runner.limits, seconds=case.seconds)
        folder = str(Path(self.runner.artifacts).parent)
        run = Run(folder=folder, patch=case.folder, rows=self.rows, others=case.others, limits=limits)
        workloads = workloads_with(Path(case.folder))
        return CheckContext(run, load_patch(Path(case.folder)), workloads, replace(self.runner, limits=limits))

    def _linted(self, case: CorpusCase) -> dict[str, Red]:
        report = lint([Path(case.folder)], self.index)
        red: dict[str, Red] = {release: {} for release in report.releases}
        for finding in report.findings:
            if finding.severity is Severity.RED:
                for release in finding.releases or report.releases:
                    red[release].setdefault(finding.code, set()).add(f"{finding.path}:{finding.span.line}")
        return red


def _collect(red: Red, verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.colour is Colour.RED:
            places = red.setdefault(verdict.code, set())
            if verdict.where:
                places.add(shown(verdict.where))


@contextlib.contextmanager
def board(rows: dict[str, str]) -> Iterator[Board]:
    """A board with its servers running; they end with it."""
    with contextlib.ExitStack() as stack:
        # A run keeps compiled C++ beside its folder; here it is to end with the run.
        folder = f"{stack.enter_context(tempfile.TemporaryDirectory(prefix='patchgate-'))}/gate"
        servers = [start_server(torch, python) for torch, python in rows.items()]
        for server in servers:
            stack.callback(server.stop)
        run = Run(folder=folder, patch="", rows=rows)
        runner = Remembering(
            sockets={server.torch: server.socket for server in servers},
            logs={server.torch: server.log for server in servers},
            store=run.store,
            artifacts=Path(folder) / "code",
            limits=Limits(),
            kept=Path(folder) / "unpatched",
        )
        yield Board(rows, runner, [load(version) for version in releases()])


def run_cases(board: Board, cases: list[CorpusCase], *, workers: int, told: Callable[[Score], None]) -> list[Score]:
    """Every case, `workers` at once; `told` hears of each as it is done.

    Those with most cells first, so that none is left to run alone at the end.
    """

    def one(case: CorpusCase) -> Score:
        result = board.judge(case)
        told(result)
        return result

    with ThreadPoolExecutor(workers) as pool:
        running = {case.id: pool.submit(one, case) for case in sorted(cases, key=lambda case: -len(case.cells))}
        return [running[case.id].result() for case in cases]
