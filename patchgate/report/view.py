"""Verdicts -> the one view that every report shows: a matrix, and a block for each thing to act on.

Decides rows, columns, order and grouping. Refuses to know terminals, Markdown or XML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from packaging.version import Version

from patchgate.checks.registry import catalogue, families
from patchgate.model.records import Colour, Command, Verdict
from patchgate.report.commands import next_step

# Facts by which a change is told in a word; a verdict says both values where golden knows that they differ.
_HEADLINES = ("kernels.called", "loads", "bytes.total")
_WORST_FIRST = (Colour.RED, Colour.GREY, Colour.GREEN)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What one check said of one item on one torch; `codes` are those of its worst colour."""

    colour: Colour
    count: int
    codes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of the matrix. `cells` has None where nothing was judged."""

    check: str
    item: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One finding, with every torch on which it is the same."""

    torches: tuple[str, ...]
    subject: str
    expected: str
    actual: str


@dataclass(frozen=True, kw_only=True)
class Block:
    """Verdicts of one code: one thing to read, and one next step. Equal findings share an entry.

    `cell` is the item and the torch of the first verdict that has a place in the matrix.
    """

    code: str
    title: str
    colour: Colour
    check: str
    cell: tuple[str, str] | None
    entries: tuple[Entry, ...]
    places: tuple[str, ...]
    why: str
    steps: tuple[tuple[str, tuple[Command, ...]], ...]  #: (advice, commands) of each next step

    @property
    def next(self) -> tuple[str, ...]:
        """Each next step as one line."""
        return tuple(dict.fromkeys(next_step(*step) for step in self.steps))


@dataclass(frozen=True, kw_only=True)
class View:
    """Everything that is shown; `counts` is by colour, `changes` a line for each case changed as recorded.

    `replaces` says what running the patch does, where nothing is wrong with that.
    """

    torches: tuple[str, ...]
    lines: tuple[Line, ...]
    replaces: tuple[str, ...]
    changes: tuple[str, ...]
    blocks: tuple[Block, ...]
    counts: dict[Colour, int]

    @property
    def colour(self) -> Colour:
        """The worst of any verdict."""
        return next((colour for colour in _WORST_FIRST if self.counts[colour]), Colour.GREEN)

    @property
    def told(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What a reader wants to know of the patch besides its verdicts: (heading, lines)."""
        both = (("what the patch replaces", self.replaces), ("what the patch changes, as recorded", self.changes))
        return tuple((heading, lines) for heading, lines in both if lines)

    @property
    def summary(self) -> str:
        told = f"{self.counts[Colour.RED]} red, {self.counts[Colour.GREEN]} green"
        grey = self.counts[Colour.GREY]
        return f"{told}, {grey} not judged" if grey else told


def _rank(check: str) -> tuple[int, str]:
    order = families()
    return (order.index(check) if check in order else len(order), check)


def reading_order(line: tuple[str, str]) -> tuple[tuple[int, str], str]:
    """Sorts (check, item) as they are read."""
    check, item = line
    return _rank(check), item


def view(verdicts: Sequence[Verdict], torches: Sequence[str]) -> View:
    """The view of a run over `torches`; verdicts may come in any order."""
    columns = tuple(sorted(torches, key=Version))
    found = group(verdicts)
    lines = tuple(
        Line(check=check, item=item, cells=tuple(_cell_at(found, check, item, torch) for torch in columns))
        for check, item in sorted({key[:2] for key in found}, key=reading_order)
    )
    counts = Counter(v.colour for v in verdicts)
    return View(
        torches=columns,
        lines=lines,
        replaces=tuple(_replaces(verdicts)),
        changes=tuple(_changes(verdicts)),
        blocks=tuple(_blocks(verdicts, columns)),
        counts={colour: counts[colour] for colour in Colour},
    )


def _replaces(verdicts: Sequence[Verdict]) -> Iterator[str]:
    done: dict[str, list[str]] = {}
    for verdict in verdicts:
        if (verdict.code, verdict.subject) == ("PG211", "effects"):
            done.setdefault(verdict.actual, []).append(verdict.torch)
    for actual, torches in sorted(done.items(), key=lambda told: min(map(Version, told[1]))):
        yield f"{', '.join(sorted(torches, key=Version))}: {actual}"


def _changes(verdicts: Sequence[Verdict]) -> Iterator[str]:
    cases: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.colour is not Colour.GREEN or verdict.fact not in _HEADLINES:
            continue
        if verdict.before is not None and verdict.after is not None and verdict.before != verdict.after:
            change = f"{verdict.fact} {_grouped(verdict.before)} -> {_grouped(verdict.after)}"
            cases.setdefault((verdict.torch, verdict.item), []).append(change)
    for (torch, item), changes in sorted(cases.items(), key=lambda case: (Version(case[0][0]), case[0][1])):
        yield f"{torch} {item}: {', '.join(sorted(changes, reverse=True))}"


def _grouped(value: str) -> str:
    return f"{int(value):,}" if value.isdecimal() else value


def group(verdicts: Sequence[Verdict]) -> dict[tuple[str, str, str], list[Verdict]]:
    """Verdicts by (check, item, torch): one cell each."""
    found: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault((verdict.check, verdict.item, verdict.torch), []).append(verdict)
    return found


def cell_of(verdicts: Sequence[Verdict]) -> Cell:
    """What these verdicts of one cell say together; there is at least one."""
    worst = min((v.colour for v in verdicts), key=_WORST_FIRST.index)
    found = [v for v in verdicts if v.colour is worst]
    return Cell(colour=worst, count=len(found), codes=tuple(sorted({v.code for v in found})))


def _cell_at(found: dict[tuple[str, str, str], list[Verdict]], check: str, item: str, torch: str) -> Cell | None:
    here = found.get((check, item, torch))
    return cell_of(here) if here else None


def _blocks(verdicts: Sequence[Verdict], torches: Collection[str]) -> list[Block]:
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.colour is not Colour.GREEN:
            groups.setdefault((verdict.check, verdict.code), []).append(verdict)
    blocks = [
        Block(
            code=code,
            title=catalogue()[code].title,
            colour=found[0].colour,
            check=check,
            cell=_first_cell(found, torches),
            entries=tuple(_entries(found)),
            places=tuple(dict.fromkeys(v.where for v in found if v.where)),
            why=found[0].why,
            steps=tuple(dict.fromkeys((v.advice, v.commands) for v in found)),
        )
        for (check, code), found in groups.items()
    ]
    return sorted(blocks, key=lambda b: (b.colour is not Colour.RED, _rank(b.check), b.code))


def _first_cell(verdicts: Sequence[Verdict], torches: Collection[str]) -> tuple[str, str] | None:
    placed = [verdict for verdict in verdicts if verdict.torch in torches]
    first = min(placed, key=lambda v: (v.subject, v.torch), default=None)
    return (first.item, first.torch) if first else None


def _entries(verdicts: Sequence[Verdict]) -> Iterator[Entry]:
    same: dict[tuple[str, str, str], list[str]] = {}
    for verdict in sorted(verdicts, key=lambda v: (v.subject, Version(v.torch or "0"))):
        same.setdefault((verdict.subject, verdict.expected, verdict.actual), []).append(verdict.torch)
    for (subject, expected, actual), torches in same.items():
        yield Entry(torches=tuple(filter(None, torches)), subject=subject, expected=expected, actual=actual)
