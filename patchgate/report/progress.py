"""Show the progress of a run, by a bar in a terminal and by plain lines elsewhere; show each cause
as soon as it is found.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from patchgate.model.records import Verdict
from patchgate.model.results import JudgedCell, Progress
from patchgate.model.text import time_text
from patchgate.report.causes import cause_of
from patchgate.report.terminal import labelled, print_line
from patchgate.report.view import headline_text

# Seconds between two plain lines.
_EVERY = 15
# Fewer seconds are shown as `finishing`; a late cell needs this share of its elapsed time again.
_SHORT, _LONGER = 3, 0.3
# The seconds of a cell whose answers are all kept; and the weight, in expected seconds, that the
# factor of all cells has in the factor of one check.
_KEPT, _DRAWN = 0.1, 3
# The weight, in seconds of this run, of an expected second of a cell whose answers are kept.
_SURE = 2


class TimeLeft:
    """Estimates the seconds left in a run from the seconds of each cell in the last run (or else
    the seconds that its check states), and from how much longer the cells of this run take.
    """

    def __init__(
        self, before: Mapping[str, float], workers: int, clock: Callable[[], float]
    ) -> None:
        self._before, self._workers, self._clock = before, workers, clock
        self._left: dict[str, float] = {}  # the expected seconds of cells that have not ended
        self._began: dict[str, float] = {}
        self._ended: list[tuple[str, float, float]] = []  # cell, seconds, and expected seconds
        self._sure = 0.0  # the weight of the cells whose answers are kept

    def planned(self, cells: Mapping[str, float], kept: Mapping[str, float] | None = None) -> None:
        expected = {**cells, **self._before, **(kept or {})}
        self._left = {cell: expected[cell] for cell in cells}
        self._sure = _SURE * sum(expected[cell] for cell in kept or () if cell in cells)

    def started(self, cell: str) -> None:
        self._began[cell] = self._clock()

    def ended(self, cell: str, seconds: float) -> None:
        self._began.pop(cell, None)
        self._ended.append((cell, seconds, self._left.pop(cell, seconds)))

    def seconds(self) -> float:
        """The seconds that are left in the run; at least the seconds left of the longest cell."""
        now, left = self._clock(), []
        cells = list(self._left.items())  # a copy: another thread may change it
        elapsed = {cell: now - self._began.get(cell, now) for cell, _ in cells}
        # A cell that takes longer than expected shows how slow this run is before any cell ends.
        late = [(cell, elapsed[cell], seconds) for cell, seconds in cells]
        known = list(self._ended) or [each for each in late if each[1] > each[2]]
        factor = _factor(known, self._sure)
        for cell, seconds in cells:
            needed = max(seconds * factor(cell), _KEPT) - elapsed[cell]
            left.append(max(needed, _LONGER * elapsed[cell]))
        return max([sum(left) / self._workers, *left])


def _factor(known: Collection[tuple[str, float, float]], sure: float) -> Callable[[str], float]:
    """Return a function that estimates how many times longer than expected a cell takes, by the
    cells of its check and by all cells. The larger `sure` is, the nearer the result is to 1.

    Checks that are measured each time say little about checks whose answers are kept.
    """
    taken, weights = defaultdict[str, float](float), defaultdict[str, float](float)
    for cell, seconds, expected in known:
        for group in ("", _check_of(cell)):
            taken[group] += seconds
            weights[group] += expected
    every = (taken[""] + sure) / (weights[""] + sure) if weights[""] else 1.0
    drawn = _DRAWN + sure

    def factor(cell: str) -> float:
        check = _check_of(cell)
        return (taken[check] + drawn * every) / (weights[check] + drawn)

    return factor


def _check_of(cell: str) -> str:
    return cell.partition("-")[0]


class RunProgress(Progress):
    """Shows the progress of one run. `before` are the seconds of each cell in the last run; `later`
    is the number of patches that are judged after this patch.
    """

    def __init__(
        self,
        console: Console,
        before: Mapping[str, float],
        *,
        workers: int,
        cells: bool,
        waits: str,
        later: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console, self.cells, self.waits, self._clock = console, cells, waits, clock
        self.total, self.done, self._later = 0, 0, later
        self._left = TimeLeft(before, workers, clock)
        self._began, self._over = clock(), threading.Event()
        self._running: dict[str, None] = {}
        self._causes: set[str] = set()
        texts = TextColumn("{task.fields[left]}"), TextColumn("{task.description}")
        columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), *texts)
        self._bar = Bar(*columns, console=console, transient=True)
        self._task = self._bar.add_task(waits, total=None, left="")
        if not console.is_terminal:
            print_line(console, waits)

    def __enter__(self) -> RunProgress:
        if self.console.is_terminal:
            self._bar.start()
        threading.Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self.console.is_terminal:
            self._bar.stop()
        if self.total:
            print_line(self.console, f"{self.done} checks in {self._elapsed()}; writing the report")

    def planned(self, cells: Mapping[str, float], kept: Mapping[str, float] | None = None) -> None:
        """Note the cells of the run, and the seconds that they are expected to need. `kept` has the
        seconds of the cells whose answers are kept.
        """
        self.total = len(cells)
        self._left.planned(cells, kept)
        self._show()

    def started(self, cell: str) -> None:
        """Show that a cell begins to be judged."""
        self._running[cell] = None
        self._left.started(cell)
        self._show()

    def ended(self, cell: JudgedCell) -> None:
        """Show the results of a cell: each new cause, and how much is left."""
        self.done += 1
        self._running.pop(cell.name, None)
        self._left.ended(cell.name, cell.seconds)
        if self.cells:
            green = len(cell.verdicts) - len(cell.red)
            counts = f"{len(cell.red)} red, {green} others" if cell.red else f"{green} results"
            print_line(self.console, f"{cell.seconds:6.1f} s  {cell.name}: {counts}")
        for verdict in cell.red:
            self._show_cause(verdict)
        self._show()

    def left(self) -> str:
        """`about 40 s left`. If other patches follow, `, about 4 min for all patches` is added:
        each of them is expected to take as long as this patch.
        """
        seconds = self._left.seconds()
        own = f"about {time_text(seconds)} left" if seconds >= _SHORT else "finishing"
        every = seconds + self._later * (self._clock() - self._began + seconds)
        return own + f", about {time_text(every)} for all patches" * bool(self._later)

    def _repeat(self) -> None:
        """Show that the run goes on, even if no cell begins or ends."""
        while not self._over.wait(1 if self.console.is_terminal else _EVERY):
            if self.console.is_terminal:
                self._show()
            else:
                print_line(self.console, self.line())

    def line(self) -> str:
        """`2 min 5 s: 89 of 180 checks, about 40 s left, running tokens 2.11.0`."""
        if not self.total:
            return f"{self._elapsed()}: {self.waits}"
        parts = (f"{self.done} of {self.total} checks", self.left(), self._now())
        return f"{self._elapsed()}: {', '.join(filter(None, parts))}"

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(self._clock() - self._began), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

    def _now(self) -> str:
        """The running checks, each with its release."""
        running = dict.fromkeys(" ".join(cell.split("-")[:2]) for cell in list(self._running))
        return f"running {', '.join(running)}" if running else ""

    def _show_cause(self, verdict: Verdict) -> None:
        """Show a cause as soon as it is found, not only after the last cell."""
        cause = cause_of(verdict)
        if cause.name not in self._causes:
            self._causes.add(cause.name)
            self.console.print(Text(f"red: {cause.sentence}", style="bold red"))
            self.console.print(labelled(verdict.code, headline_text(verdict)))

    def _show(self) -> None:
        now = self._now() if self.total else self.waits
        left = self.left() if self.total else ""
        self._bar.update(
            self._task, total=self.total or None, completed=self.done, left=left, description=now
        )
