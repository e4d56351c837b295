"""How far a run is: a bar in a terminal, plain lines elsewhere, and each cause as soon as it is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from patchgate.model.records import Verdict
from patchgate.model.results import CellEvent
from patchgate.model.text import time_text
from patchgate.report.causes import cause_of
from patchgate.report.terminal import labelled, print_line
from patchgate.report.view import first_clause, verdict_text

# Plain lines of a run that nobody watches.
_LINES = 10


class RunProgress:
    """Shows the events of one run; `before` are the seconds of each cell in the last one."""

    def __init__(self, console: Console, before: Mapping[str, float], *, workers: int, cells: bool, waits: str) -> None:
        self.console, self.before, self.workers, self.cells = console, before, workers, cells
        self.waiting: dict[str, None] = {}  # cells that were not judged yet, in their order
        self.total = 0
        self._running: dict[str, None] = {}
        self._seconds: list[float] = []
        self._causes: set[str] = set()
        texts = TextColumn("{task.fields[left]}"), TextColumn("{task.description}")
        bar = Progress(BarColumn(24), MofNCompleteColumn(), *texts, console=console, transient=True)
        self._bar = bar if console.is_terminal else None
        self._task = self._bar.add_task(waits, total=None, left="") if self._bar else None
        if not self._bar:
            print_line(console, waits)

    def __enter__(self) -> RunProgress:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, event: CellEvent) -> None:
        if event.planned and not self.total:
            self.waiting, self.total = dict.fromkeys(event.planned), len(event.planned)
        if event.started:
            self._running[event.started] = None
        if event.ended:
            self._end(event)
        self._show(ended=bool(event.ended))

    def left(self) -> float | None:
        """The seconds that are left, from the last run and from the cells so far; None where neither says anything."""
        known = [self.before[cell] for cell in self.waiting if cell in self.before]
        times = self._seconds or known
        if not times:
            return None
        mean = sum(times) / len(times)
        return sum(self.before.get(cell, mean) for cell in self.waiting) / self.workers

    def _end(self, event: CellEvent) -> None:
        self.waiting.pop(event.ended, None)
        self._running.pop(event.ended, None)
        self._seconds.append(event.seconds)
        if self.cells:
            green = len(event.verdicts) - len(event.red)
            counts = f"{len(event.red)} red, {green} others" if event.red else f"{green} verdicts"
            print_line(self.console, f"{event.seconds:6.1f} s  {event.ended}: {counts}")
        for verdict in event.red:
            self._show_cause(verdict)

    def _show_cause(self, verdict: Verdict) -> None:
        """Nobody should wait for the last cell to learn of the first cause."""
        cause = cause_of(verdict)
        if cause.name not in self._causes:
            self._causes.add(cause.name)
            self.console.print(Text(f"red: {cause.sentence}", style="bold red"))
            text = verdict_text(replace(verdict, actual=first_clause(verdict.actual)))
            self.console.print(labelled(verdict.code, text))

    def _show(self, *, ended: bool) -> None:
        done, left = self.total - len(self.waiting), self.left()
        about = "" if left is None or not self.waiting else f"about {time_text(left)} left"
        if self._bar and self._task is not None:
            now = ", ".join(self._running) if self.total else "starting torch"
            self._bar.update(self._task, total=self.total or None, completed=done, left=about, description=now)
        elif ended and self.total and done * _LINES // self.total > (done - 1) * _LINES // self.total:
            print_line(self.console, ", ".join(filter(None, (f"{done} of {self.total} cells", about))))
