"""How far a run is: a bar in a terminal, plain lines elsewhere, and each cause as soon as it is
found.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from patchgate.model.records import Verdict
from patchgate.model.results import JudgedCell
from patchgate.model.text import time_text
from patchgate.report.causes import cause_of
from patchgate.report.terminal import labelled, print_line
from patchgate.report.view import headline_text

# Plain lines of a run that nobody watches.
_LINES = 10


class RunProgress:
    """Shows how far one run is; `before` are the seconds of each cell in the last one."""

    def __init__(
        self,
        console: Console,
        before: Mapping[str, float],
        *,
        workers: int,
        cells: bool,
        waits: str,
    ) -> None:
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

    def planned(self, cells: Collection[str]) -> None:
        """Take the cells that are to be judged."""
        self.waiting, self.total = dict.fromkeys(cells), len(cells)
        self._show(ended=False)

    def started(self, cell: str) -> None:
        """Show a cell that is judged from now on."""
        self._running[cell] = None
        self._show(ended=False)

    def ended(self, cell: JudgedCell) -> None:
        """Show what a cell gave: each cause that is new, and how much is left."""
        self._end(cell)
        self._show(ended=True)

    def left(self) -> float | None:
        """The seconds that are left, from the last run and from the cells so far; None where
        neither says anything.
        """
        known = [self.before[cell] for cell in self.waiting if cell in self.before]
        times = self._seconds or known
        if not times:
            return None
        mean = sum(times) / len(times)
        return sum(self.before.get(cell, mean) for cell in self.waiting) / self.workers

    def _end(self, cell: JudgedCell) -> None:
        self.waiting.pop(cell.name, None)
        self._running.pop(cell.name, None)
        self._seconds.append(cell.seconds)
        if self.cells:
            green = len(cell.verdicts) - len(cell.red)
            counts = f"{len(cell.red)} red, {green} others" if cell.red else f"{green} verdicts"
            print_line(self.console, f"{cell.seconds:6.1f} s  {cell.name}: {counts}")
        for verdict in cell.red:
            self._show_cause(verdict)

    def _show_cause(self, verdict: Verdict) -> None:
        """Nobody should wait for the last cell to learn of the first cause."""
        cause = cause_of(verdict)
        if cause.name not in self._causes:
            self._causes.add(cause.name)
            self.console.print(Text(f"red: {cause.sentence}", style="bold red"))
            self.console.print(labelled(verdict.code, headline_text(verdict)))

    def _show(self, *, ended: bool) -> None:
        done, left = self.total - len(self.waiting), self.left()
        about = "" if left is None or not self.waiting else f"about {time_text(left)} left"
        if self._bar and self._task is not None:
            now = ", ".join(self._running) if self.total else "starting torch"
            self._bar.update(
                self._task, total=self.total or None, completed=done, left=about, description=now
            )
        elif (
            ended and self.total and done * _LINES // self.total > (done - 1) * _LINES // self.total
        ):
            print_line(
                self.console, ", ".join(filter(None, (f"{done} of {self.total} cells", about)))
            )
