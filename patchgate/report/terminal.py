"""Print the view in a terminal: the checks that are not green, the effects of the patch, the
causes, and the result as the last lines.

Long lists are cut and end with the number of entries left out; green results are only counted.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from textwrap import fill, shorten
from typing import IO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from patchgate.checks.framework.find_checks import title_of
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Verdict
from patchgate.model.text import counted, escape_control
from patchgate.report.causes import CauseGroup, is_change
from patchgate.report.last_lines import Ending, count_line
from patchgate.report.next_commands import typed
from patchgate.report.source_lines import lines_at
from patchgate.report.view import (
    Block,
    Entry,
    MatrixCell,
    MatrixLine,
    RunView,
    headline_text,
    on_torches,
    step_text,
    verdict_text,
)

_STYLES = {Colour.GREEN: "green", Colour.RED: "bold red", Colour.GREY: "yellow"}
# The most rows of the matrix, replaced names, entries of a grey block and codes of notes.
_ROWS, _NOTES, _GREY, _CODES = 16, 4, 3, 5
# The most cases with a cost, other verdicts of a cause, and subjects of one verdict.
_COSTS, _OTHERS, _SUBJECTS = 3, 6, 4
# The most characters for the names of checks that have no row of their own.
_NAMES = 44
# The most characters of a source line with a caret below it, and of `place: source line`.
_SOURCE, _INLINE = 70, 90
# The characters between two columns of the matrix, and the width of a folded heading.
_GAP, _HEADING = 2, 10
# The width of a label, and of output that does not go to a terminal.
_LABEL, _LOG = 7, 140
# Grey kinds that are shown on a line of their own.
_ELSEWHERE = (Kind.NEW, Kind.STOPPED)
# The most columns that a place in the list of problems may take.
_PLACE = 20


def to_stdout(show: Callable[[Console], None]) -> None:
    """Print to standard output. In a file or a pipe, lines have no trailing blanks."""
    if sys.stdout.isatty():
        show(stdout_console())
        return
    text = io.StringIO()
    show(stdout_console(text))
    for line in text.getvalue().splitlines():
        print(line.rstrip())


def stdout_console(file: IO[str] | None = None) -> Console:
    """A console as wide as the terminal. COLUMNS overrides the width; without it, a file or a pipe
    gets a fixed width.
    """
    return Console(
        file=file, width=None if "COLUMNS" in os.environ or sys.stdout.isatty() else _LOG
    )


def show_run(console: Console, title: str, view: RunView, ending: Ending | None = None) -> None:
    """Print a run: title, matrix, causes, the cells that were not judged, the list of problems, and
    the last lines.
    """
    scope, last = ending or Ending([], [count_line(view)])
    console.print(Text(escape_control(title), style="bold"))
    if view.stopped and not view.causes:  # nothing to act on: the last line says all
        console.print(Text(escape_control(last[-1]), style=_STYLES[view.colour]))
        return
    console.print(_matrix(view, console.width))
    # The headings of the columns say where the patch does not apply.
    replaces = [effect.text for effect in view.replaces if effect.applies or len(view.torches) == 1]
    heading = "replaces: " if len(replaces) == 1 else "replaces:\n  "
    if replaces:
        console.print(Text(escape_control(heading + "\n  ".join(_cut(replaces, _NOTES)))))
    grey = [
        block
        for block in view.blocks
        if block.colour is Colour.GREY and block.kind not in _ELSEWHERE
    ]
    shown = [block for block in grey if block.unjudged or _is_shown_idle(view, block)]
    accepted = sum(map(len, view.changes.values()))
    if accepted:
        console.print(Text(f"the report also has {counted(accepted, 'accepted change')}"))
    for line in _note_lines([block for block in grey if block not in shown]):
        print_line(console, line, _STYLES[Colour.GREY])
    if view.unrecorded:
        console.print(Text(escape_control(view.unrecorded), style=_STYLES[Colour.GREY]))
    for number, group in enumerate(view.causes, 1):
        _show_cause(console, number, group)
    console.print()
    # Grey blocks are often a consequence of the causes above.
    for block in shown:
        _show_grey(console, block)
    for line in scope:
        console.print(Text(escape_control(line)))
    if view.causes:
        for problem in _problems(view):
            print_line(console, problem, _STYLES[Colour.RED])
    for line in last[:-1]:
        console.print(Text(escape_control(line)))
    console.print(Text(escape_control(last[-1]), style=_STYLES[view.colour]))


def _is_shown_idle(view: RunView, block: Block) -> bool:
    """True for a warning about a patch that changes nothing: the warning may say why."""
    return view.is_idle and block.kind is Kind.WARNING


def _note_lines(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield a line with the first note of each code, then the number of notes left out."""
    entries = defaultdict[tuple[str, str], list[Entry]](list)
    for block in blocks:
        entries[block.code, block.title].extend(block.entries)
    for (code, title), noted in [*entries.items()][:_CODES]:
        first = noted[0]
        more = f" (and {len(noted) - 1} more)" * (len(noted) > 1)
        yield f"note: {code} {title.partition(':')[0]}{more}: {first.subject}: {first.actual}"
    left = sum(len(noted) for noted in [*entries.values()][_CODES:])
    if left:
        yield f"and {left} more in the report"


def show_answer(console: Console, heading: str, view: RunView) -> None:
    """Print the counts of one patch of several, and a line for each problem."""
    console.print(Text(escape_control(f"{heading}: {count_line(view)}"), _STYLES[view.colour]))
    for problem in _problems(view) if view.causes else ():
        print_line(console, problem, _STYLES[Colour.RED])


def _problems(view: RunView) -> Iterator[str]:
    """A line for each cause: its code, the place, the title of the code, and the evidence."""
    places = [(group.evidence.where or "-").rpartition("/")[2] for group in view.causes]
    width = min(_PLACE, max(map(len, places)))
    for number, (group, place) in enumerate(zip(view.causes, places, strict=True), 1):
        first = group.evidence
        # A line has no room for the release.
        evidence = headline_text(replace(first, case=replace(first.case, torch="")))
        title = title_of(first.code).partition(":")[0]
        yield f"{number}. {first.code} {place:{width}} {title}: {evidence}"


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print one line, cut at the width of the terminal."""
    line = Text(escape_control(" ".join(text.splitlines())), style=style)
    console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


def _cut(lines: Sequence[str], most: int) -> Iterator[str]:
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most} more, in the report"


def _matrix(view: RunView, width: int) -> Table:
    """The items that are red or not judged, and a row of counts for all others.

    If the headings leave too little of `width` for the names, they are folded.
    """
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("item", overflow="fold")  # the only column that may become narrower
    opened = [line for line in view.lines if _is_open(line)]
    names = [max((len(name) for name in each), default=0) for each in _names(opened)]
    is_narrow = sum(names) + sum(len(column) + _GAP for column in view.columns) + _GAP > width
    for column in view.columns:
        table.add_column(fill(column, _HEADING) if is_narrow else column, no_wrap=True)
    before = ""
    for line in opened[:_ROWS]:
        check = line.check if line.check != before else ""
        before = line.check
        table.add_row(
            Text(check), Text(escape_control(line.item)), *(_cell_text(cell) for cell in line.cells)
        )
    if len(opened) > _ROWS:
        table.add_row(Text("..."), Text(f"{len(opened) - _ROWS} more rows, in the report"))
    rest = [line for line in view.lines if not _is_open(line)]
    if rest:
        checks = shorten(
            ", ".join(dict.fromkeys(line.check for line in rest)), _NAMES, placeholder=" ..."
        )
        cells = [_sum_text([line.cells[at] for line in rest]) for at in range(len(view.torches))]
        table.add_row(Text("others" if opened else "all"), Text(escape_control(checks)), *cells)
    return table


def _names(lines: Sequence[MatrixLine]) -> tuple[list[str], list[str]]:
    return [line.check for line in lines], [line.item for line in lines]


def _is_open(line: MatrixLine) -> bool:
    """True if a line gets a row of its own: a cell of it is red, or could not be judged."""
    return any(cell and (cell.colour is Colour.RED or cell.unjudged) for cell in line.cells)


def _cell_text(cell: MatrixCell | None) -> Text:
    if cell is None:
        return Text("-", style="dim")
    codes = "ok" if cell.colour is Colour.GREEN else " ".join(cell.codes)
    return Text(f"{codes} {cell.count}", style=_STYLES[cell.colour])


def _sum_text(cells: Sequence[MatrixCell | None]) -> Text:
    """The counts of several cells by colour: `1274 ok, 2 grey`."""
    counts = Counter[Colour]()
    for cell in cells:
        if cell:
            counts[cell.colour] += cell.count
    words = ((Colour.GREEN, "ok"), (Colour.GREY, "grey"))
    texts = [
        Text(f"{counts[colour]} {word}", style=_STYLES[colour])
        for colour, word in words
        if counts[colour]
    ]
    return Text(", ").join(texts) if texts else Text("-", style="dim")


def _show_grey(console: Console, block: Block) -> None:
    """Print a grey block: a line for each entry, and the next command."""
    mark = "not judged: " if block.unjudged else ""
    title = f"{mark}{block.code} {block.title}"
    entries = [
        f"{entry.subject}{on_torches(entry.torches)}: {entry.actual}" for entry in block.entries
    ]
    if len(entries) == 1:
        title, entries = f"{title}: {entries[0]}", []
    advice, commands = block.steps[0]
    lines = [f"  {line}" for line in _cut(entries, _GREY)]
    lines.append(f"  next: {typed(commands[0]) if commands else advice}")
    console.print(Text(escape_control(title), style=_STYLES[block.colour]))
    for line in lines:
        console.print(Text(escape_control(line)))


def _show_cause(console: Console, number: int, group: CauseGroup) -> None:
    """Print the problem, the strongest evidence, its place, the fix, and the other verdicts."""
    evidence, changes = group.evidence, list(group.changes)
    console.print()
    console.print(Text(f"{number}. {group.cause.sentence}", style=_STYLES[Colour.RED]))
    if is_change(evidence):  # the line of changes has the values
        text = changes.pop(0)[1] + ("" if evidence.recorded else " (none is recorded)")
    else:
        expected = evidence.expected and f"; expected: {evidence.expected}"
        text = f"{verdict_text(evidence)}{expected}"
    more = [*map(" ".join, changes), *_other_lines(group)]
    fields = (
        (evidence.code, text),
        ("cost", "\n".join(_cut(group.costs, _COSTS))),
        ("where", "\n".join(_place_lines(evidence))),
        ("do", step_text(evidence)),
        ("also", "\n".join(_cut(more, _OTHERS))),
    )
    for label, text in fields:
        if text:
            console.print(labelled(label, text))


def _other_lines(group: CauseGroup) -> Iterator[str]:
    """Yield a line for each further result except changed facts, with its releases if they differ
    from the release of the evidence.
    """
    torches, subjects = defaultdict(list), defaultdict(list)
    for verdict in group.verdicts[1:]:
        if not is_change(verdict):
            torches[verdict.code, verdict.subject, verdict.headline].append(verdict.torch)
    for (code, subject, actual), on in torches.items():
        subjects[code, actual, tuple(on)].append(subject)
    for (code, actual, releases), names in subjects.items():
        where = "" if releases == (group.evidence.torch,) else on_torches(releases)
        more = f" and {len(names) - _SUBJECTS} more" * (len(names) > _SUBJECTS)
        yield f"{code} {', '.join(names[:_SUBJECTS])}{more}{where}: {actual}"


def _place_lines(verdict: Verdict) -> Iterator[str]:
    """The place of a verdict, and its source line with a caret below the name in the fact."""
    line = next((text.strip() for _, text in lines_at(verdict.where or "")), "")
    if not line:
        yield verdict.where or ""
        return
    names = [
        each
        for name in re.findall(r"\w+", verdict.fact)
        if (each := re.search(rf"\b{name}\b", line))
    ]
    if not names or len(line) > _SOURCE:
        inline = f"{verdict.where}: {line}"
        yield inline if len(inline) <= _INLINE else verdict.where or ""
        return
    yield from (verdict.where or "", line, " " * names[-1].start() + "^" * len(names[-1][0]))


def labelled(label: str, text: str) -> RenderableType:
    """A label in a column of its own, and the text, folded."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL, justify="right", style="dim")
    table.add_column(overflow="fold")
    table.add_row(label, Text(escape_control(text)))
    return table
