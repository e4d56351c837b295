"""How far a run is: plain lines where nobody watches, a bar where somebody does, causes as they are
found.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from samples import verdict

from patchgate.model.records import Kind, Verdict
from patchgate.model.results import JudgedCell
from patchgate.model.text import time_text
from patchgate.report.progress import RunProgress

CELLS = tuple(f"kernels-2.11.0-{number}" for number in range(20))


def made(
    before: dict[str, float] | None = None, *, terminal: bool = False, cells: bool = False
) -> tuple[RunProgress, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=80, force_terminal=terminal)
    return RunProgress(
        console, before or {}, workers=2, cells=cells, waits="starting torch 2.11.0"
    ), file


def end(progress: RunProgress, cell: str, *red: Verdict, seconds: float = 2.0) -> None:
    progress.started(cell)
    green = verdict(Kind.PASS, "PG300")
    progress.ended(
        JudgedCell(name=cell, seconds=seconds, verdicts=(*red, *[green] * (3 - len(red))))
    )


def test_without_a_terminal_every_tenth_of_the_cells_is_a_line():
    progress, file = made()
    progress.planned(CELLS)
    for cell in CELLS:
        end(progress, cell)
    lines = file.getvalue().splitlines()
    assert lines[:3] == [
        "starting torch 2.11.0",
        "2 of 20 cells, about 18 s left",
        "4 of 20 cells, about 16 s left",
    ]
    assert (lines[-1], len(lines)) == ("20 of 20 cells", 11)


def test_what_is_left_is_estimated_from_the_last_run_and_from_the_cells_so_far():
    progress, _ = made({CELLS[0]: 10.0, CELLS[1]: 30.0})
    assert progress.left() is None
    progress.planned(CELLS[:3])
    assert (
        progress.left() == (10 + 30 + 20) / 2
    )  # a cell that the last run did not have counts as the mean
    end(progress, CELLS[0], seconds=4.0)
    assert progress.left() == (30 + 4) / 2


def test_a_cause_is_shown_once_and_as_soon_as_it_is_found():
    progress, file = made()
    progress.planned(CELLS)
    red = [verdict(Kind.REGRESSED, code, "parity", actual="x " * 80) for code in ("PG501", "PG510")]
    end(progress, CELLS[0], red[0])
    end(progress, CELLS[1], red[1])
    lines = [line.rstrip() for line in file.getvalue().splitlines()[1:]]
    cause = (
        "red: The outputs change more than the manifest claims: jobs that compare text exactly "
        "can fail."
    )
    assert " ".join(lines[:2]) == cause
    assert lines[2].startswith("  PG501 stack.h200 loads on torch 2.9.0: x x")
    assert [line for line in lines if line.startswith("red")] == lines[:1]
    assert max(map(len, lines)) <= 80


def test_what_a_patch_says_can_neither_recolour_nor_move_the_terminal():
    progress, file = made()
    end(progress, CELLS[0], verdict(Kind.REGRESSED, "PG501", actual="\x1b[2J\u202e[red]b"))
    assert r"\x1b[2J\u202e[red]b" in file.getvalue()


@pytest.mark.parametrize(("cells", "count"), [(True, 1), (False, 0)])
def test_cells_are_lines_on_request(cells, count):
    progress, file = made(cells=cells)
    progress.planned(CELLS)
    end(progress, CELLS[0])
    assert file.getvalue().splitlines().count(f"   2.0 s  {CELLS[0]}: 3 verdicts") == count


def test_in_a_terminal_a_bar_shows_what_runs_and_is_gone_at_the_end():
    progress, file = made(terminal=True)
    with progress:
        progress.planned(CELLS)
        progress.started(CELLS[3])
        end(progress, CELLS[0])
    shown = file.getvalue()
    assert "1/20" in shown
    assert CELLS[3] in shown
    assert "about 19 s left" in shown
    assert shown.endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (600, "10 min")]
)
def test_times_are_rounded(seconds, text):
    assert time_text(seconds) == text
