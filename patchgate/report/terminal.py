"""The view in a terminal: the matrix, then a block for each code to act on.

Long lists are cut and say so; greens are only counted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from patchgate.model.records import Colour
from patchgate.model.text import escape_control
from patchgate.report.view import Block, MatrixCell, RunView

_STYLES = {Colour.GREEN: "green", Colour.RED: "bold red", Colour.GREY: "yellow"}
# Entries and places of a block that are shown.
_ENTRIES, _PLACES = 16, 3
# Columns of a label, and of a log: it is not 80 wide.
_LABEL, _LOG = 7, 140


def to_stdout(show: Callable[[Console], None]) -> None:
    """Show it in a terminal; in a file or a pipe as wide as COLUMNS says, and without trailing blanks."""
    if sys.stdout.isatty():
        show(Console())
        return
    text = io.StringIO()
    show(Console(file=text, width=None if "COLUMNS" in os.environ else _LOG))
    for line in text.getvalue().splitlines():
        print(line.rstrip())


def show_run(console: Console, title: str, view: RunView) -> None:
    """Print a run: title, matrix, blocks, summary."""
    console.print(Text(escape_control(title), style="bold"))
    console.print(_matrix(view))
    for heading, lines in view.notes:
        note = Group(Text(heading, style="bold"), *(Text(escape_control(line)) for line in lines))
        console.print(Padding(note, (0, 0, 1, 0)))
    for block in view.blocks:
        console.print(Padding(Group(*_block(block)), (0, 0, 1, 0)))
    style = _STYLES[Colour.RED if view.counts[Colour.RED] else Colour.GREEN]
    console.print(Text(view.summary, style=style))


def _matrix(view: RunView) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("item", overflow="fold")  # the only one that may give way
    for torch in view.torches:
        table.add_column(torch, no_wrap=True)
    before = ""
    for line in view.lines:
        check = line.check if line.check != before else ""
        before = line.check
        table.add_row(Text(check), Text(escape_control(line.item)), *(_cell_text(cell) for cell in line.cells))
    return table


def _cell_text(cell: MatrixCell | None) -> Text:
    if cell is None:
        return Text("-", style="dim")
    codes = "ok" if cell.colour is Colour.GREEN else " ".join(cell.codes)
    return Text(f"{codes} {cell.count}", style=_STYLES[cell.colour])


def _block(block: Block) -> Iterator[RenderableType]:
    mark = "NOT JUDGED " if block.colour is Colour.GREY else ""
    yield Text(f"{mark}{block.code}  {block.title}", style=_STYLES[block.colour])
    field = partial(labelled, width=max(_LABEL, len(block.check)))
    for entry in block.entries[:_ENTRIES]:
        on = f" on torch {', '.join(entry.torches)}" if entry.torches else ""
        yield field(block.check, f"{entry.subject}{on}")
        yield field("", f"expected {entry.expected}")
        yield field("", f"actual   {entry.actual}")
    if len(block.entries) > _ENTRIES:
        yield field("", f"and {len(block.entries) - _ENTRIES} more, all in verdicts.json")
    for place in block.places[:_PLACES]:
        yield field("where", place)
    if len(block.places) > _PLACES:
        yield field("", f"and {len(block.places) - _PLACES} more")
    yield field("why", block.why)
    for step in block.next:
        yield field("next", step)
    yield field("", f"patchgate explain {block.code}")


def labelled(label: str, text: str, width: int = _LABEL) -> RenderableType:
    """A label in a column of its own, and the text, folded."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=width, justify="right", style="dim")
    table.add_column(overflow="fold")
    table.add_row(label, Text(escape_control(text)))
    return table
