"""How far a run is: plain lines where nobody watches, a bar where somebody does, causes as they are
found.
"""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from samples import verdict

from patchgate.model.policy import Kind
from patchgate.model.records import Verdict
from patchgate.model.results import JudgedCell
from patchgate.model.text import time_text
from patchgate.report.progress import RunProgress, TimeLeft

CELLS = {f"kernels-2.11.0-{number}": 1 for number in range(20)}
NAMES = list(CELLS)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(
    before: dict[str, float] | None = None,
    *,
    terminal: bool = False,
    cells: bool = False,
    clock: Clock | None = None,
    later: int = 0,
) -> tuple[RunProgress, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=110 if terminal else 80, force_terminal=terminal)
    progress = RunProgress(
        console,
        before or {},
        workers=2,
        cells=cells,
        waits="starting torch 2.11.0",
        later=later,
        clock=clock or Clock(),
    )
    return progress, file


def end(progress: RunProgress, cell: str, *red: Verdict, seconds: float = 2.0) -> None:
    progress.started(cell)
    green = verdict(Kind.PASS, "PG300")
    progress.ended(
        JudgedCell(name=cell, seconds=seconds, verdicts=(*red, *[green] * (3 - len(red))))
    )


def test_without_a_terminal_a_line_says_how_far_it_is_even_if_nothing_ends(monkeypatch):
    monkeypatch.setattr("patchgate.report.progress._EVERY", 0.02)
    clock = Clock()
    progress, file = made(clock=clock)
    with progress:
        clock.now = 15.0
        wait_for(file, "15 s: starting torch 2.11.0")
        progress.planned(CELLS)
        end(progress, NAMES[0])
        end(progress, NAMES[1])
        progress.started(NAMES[2])
        wait_for(file, "15 s: 2 of 20 checks, about 18 s left, running kernels 2.11.0")
        clock.now = 125.0
    assert file.getvalue().splitlines()[-1] == "2 checks in 2 min 5 s; writing the report"


def wait_for(file: io.StringIO, line: str) -> None:
    for _ in range(500):
        if line in file.getvalue().splitlines():
            return
        time.sleep(0.01)
    pytest.fail(f"{line!r} is not in {file.getvalue()!r}")


def test_a_rough_time_is_named_from_the_start_and_none_at_the_very_end():
    progress, _ = made()
    progress.planned(CELLS)
    assert progress.left() == "about 10 s left"
    for cell in NAMES[:-1]:
        end(progress, cell)
    assert progress.left() == "finishing"


def test_a_cell_that_takes_longer_than_expected_tells_how_slow_this_run_is():
    clock = Clock()
    left = TimeLeft({}, 2, clock)
    left.planned({"plain_run-1": 25} | {f"parity-{number}": 5 for number in range(10)})
    left.started("plain_run-1")
    assert left.seconds() == 37.5
    clock.now = 100
    assert left.seconds() == pytest.approx((30 + 10 * 5 * 4) / 2)
    left.ended("plain_run-1", 100)
    assert left.seconds() == pytest.approx(10 * 5 * 4 / 2)


def test_cells_whose_answers_are_kept_are_expected_to_take_what_is_not_kept_of_them():
    left = TimeLeft({"parity-1": 30.0}, 1, Clock())
    left.planned({"parity-1": 5, "cache-1": 4, "api-1": 1}, {"parity-1": 0.01, "cache-1": 40})
    assert left.seconds() == pytest.approx(0.1 + 40 + 1)
    left.ended("parity-1", 10)  # one that was measured again says little of the others
    every = (10 + 2 * 40.01) / (0.01 + 2 * 40.01)
    assert left.seconds() == pytest.approx((40 + 1) * every)


def test_what_is_left_is_corrected_by_what_the_cells_of_a_check_took():
    left = TimeLeft({"parity-1": 10.0, "parity-2": 30.0}, 2, Clock())
    left.planned({"parity-1": 15, "parity-2": 15, "tokens-1": 27})
    assert left.seconds() == (10 + 30 + 27) / 2  # as its check says, where nothing else is known
    left.started("parity-1")
    left.ended("parity-1", 1.0)  # a tenth of the last run
    assert left.seconds() == pytest.approx(3)


def test_a_few_measured_cells_do_not_stand_for_those_whose_answers_are_kept():
    left = TimeLeft({}, 1, Clock())
    left.planned({f"parity-{number}": 5 for number in range(13)} | {"plain_run-1": 20, "api-1": 5})
    left.ended("plain_run-1", 80)  # four times as long as expected
    assert left.seconds() == pytest.approx((13 * 5 + 5) * 4)
    for number in range(3):
        left.ended(f"parity-{number}", 0.05)
    every = (80 + 3 * 0.05) / 35
    parity = (3 * 0.05 + 3 * every) / (15 + 3)
    assert left.seconds() == pytest.approx(10 * 5 * parity + 5 * every)


def test_a_cell_whose_answers_are_kept_takes_a_moment_too():
    left = TimeLeft({}, 2, Clock())
    left.planned({f"graph-{number}": 0.1 for number in range(101)})
    left.ended("graph-0", 0.0)
    assert left.seconds() == pytest.approx(100 * 0.1 / 2)


def test_cells_that_ended_tell_more_than_one_that_is_late():
    clock = Clock()
    left = TimeLeft({}, 2, clock)
    left.planned({"plain_run-1": 10, "parity-1": 5, "parity-2": 60})
    left.started("plain_run-1")
    clock.now = 40
    assert left.seconds() == 60 * 4
    left.ended("parity-1", 5)
    assert left.seconds() == 60


def test_what_is_left_is_at_least_what_the_longest_running_cell_needs():
    clock = Clock()
    left = TimeLeft({"plain_run-1": 20.0}, 8, clock)
    left.planned({"plain_run-1": 25, "tokens-1": 1})
    left.started("plain_run-1")
    assert left.seconds() == 20
    clock.now = 15
    assert left.seconds() == 5
    clock.now = 60
    assert left.seconds() == 18  # longer than ever: nobody knows


def test_a_cause_is_shown_once_and_as_soon_as_it_is_found():
    progress, file = made()
    progress.planned(CELLS)
    red = [verdict(Kind.REGRESSED, code, "parity", actual="x " * 80) for code in ("PG501", "PG510")]
    end(progress, NAMES[0], red[0])
    end(progress, NAMES[1], red[1])
    lines = [line.rstrip() for line in file.getvalue().splitlines()[1:]]
    cause = (
        "red: Outputs change more than the patch claims (by default in no bit): tests of exact text"
        " can fail."
    )
    assert " ".join(lines[:2]) == cause
    assert lines[2].startswith("  PG501 stack.h200 loads on torch 2.9.0: x x")
    assert [line for line in lines if line.startswith("red")] == lines[:1]
    assert max(map(len, lines)) <= 80


def test_what_a_patch_says_can_neither_recolour_nor_move_the_terminal():
    progress, file = made()
    end(progress, NAMES[0], verdict(Kind.REGRESSED, "PG501", actual="\x1b[2J\u202e[red]b"))
    assert r"\x1b[2J\u202e[red]b" in file.getvalue()


@pytest.mark.parametrize(("cells", "count"), [(True, 1), (False, 0)])
def test_cells_are_lines_on_request(cells, count):
    progress, file = made(cells=cells)
    progress.planned(CELLS)
    end(progress, NAMES[0])
    assert file.getvalue().splitlines().count(f"   2.0 s  {NAMES[0]}: 3 results") == count


def test_in_a_terminal_a_bar_shows_what_runs_and_is_gone_at_the_end():
    progress, file = made(terminal=True)
    with progress:
        progress.planned(CELLS)
        progress.started(NAMES[3])
        end(progress, NAMES[0])
        end(progress, NAMES[1])
    shown = file.getvalue()
    assert "2/20" in shown
    assert "about 18 s left" in shown
    assert "running kernels 2.11.0" in shown
    assert shown.endswith("2 checks in 0 s; writing the report\n")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (600, "10 min")]
)
def test_times_are_rounded(seconds, text):
    assert time_text(seconds) == text


def test_before_other_patches_the_time_for_all_is_named():
    clock = Clock()
    progress, _ = made(clock=clock, later=2)
    clock.now = 20.0
    progress.planned(CELLS)
    assert progress.left() == "about 10 s left, about 70 s for all patches"
    for cell in NAMES[:-1]:
        end(progress, cell)
    assert progress.left().startswith("finishing, about ")
