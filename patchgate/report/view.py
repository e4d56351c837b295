"""Build from verdicts the view that every report shows: a matrix, and a block for each code that
needs action.

This module alone decides rows, columns, order and grouping; the reports decide the layout.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from patchgate.checks.framework.find_checks import catalogue, families
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Command, Verdict, record
from patchgate.model.text import counted
from patchgate.report.causes import HEADLINES, CauseGroup, change_text, group_by_cause, is_change
from patchgate.report.next_commands import next_step, typed
from patchgate.runner.run_results import QuickLook

#: Codes of missing packages: the patch cannot run without them, or met a stand-in for them.
MISSING = ("PG228", "PG230")
# The most characters of a text that is shown whole.
LONG = 240
# _NOT_ACTED: the numbers of a workload were compared, but no line of the patch ran for it.
# _RAN: codes of a check that calls the replaced functions directly, without a workload.
_NOT_ACTED, _RAN = "PG518", ("PG512", "PG513", "PG514")
_WORST_FIRST = (Colour.RED, Colour.GREY, Colour.GREEN)


@record
class MatrixCell:
    """The result of one check for one item on one torch."""

    colour: Colour  #: the worst of its verdicts
    count: int  #: how many verdicts have that colour
    codes: tuple[str, ...]  #: the codes of these verdicts
    unjudged: bool  #: one of its verdicts is no judgement


@record
class MatrixLine:
    """One item of one check on every torch."""

    check: str
    item: str
    #: in the order of the view's torches; None where nothing was judged
    cells: tuple[MatrixCell | None, ...]


@record
class Entry:
    """A finding that is the same on several torches."""

    torches: tuple[str, ...]
    subject: str
    expected: str
    actual: str


@record
class Block:
    """The verdicts of one check that are not green and share a code and a cause."""

    code: str
    title: str
    colour: Colour
    kind: Kind  #: the kind of the first verdict
    cause: str  #: the name of the cause; empty if the block is not red
    unjudged: bool  #: some of its verdicts are no judgement
    check: str
    cell: (
        tuple[str, str] | None
    )  #: item and torch of the first verdict that has a place in the matrix
    entries: tuple[Entry, ...]
    places: tuple[str, ...]  #: file:line
    why: str
    steps: tuple[tuple[str, tuple[Command, ...]], ...]  #: (advice, commands) of each next step

    @property
    def next(self) -> tuple[str, ...]:
        """Each next step as one line."""
        return tuple(dict.fromkeys(next_step(*step) for step in self.steps))


@record
class Effect:
    """The outcome of running the patch, the same on several torches."""

    text: str
    applies: bool  #: False if the patch does nothing on these torches


@record
class RunView:
    """Everything that a report shows of one patch."""

    torches: tuple[str, ...]  #: in the order of releases
    #: the heading of each torch: its release, and a note if the patch does not apply on it
    columns: tuple[str, ...]
    lines: tuple[MatrixLine, ...]  #: in reading order
    replaces: tuple[Effect, ...]  #: effects of running the patch that are not wrong
    changes: dict[str, list[str]]  #: release -> a line for each case with accepted changes
    causes: tuple[CauseGroup, ...]  #: the causes of the red verdicts, in reading order
    blocks: tuple[Block, ...]  #: red blocks by cause, the strongest first, then grey blocks
    counts: dict[Colour, int]  #: verdicts by colour
    unjudged: int  #: how many of the grey verdicts are no judgement
    stopped: int = 0  #: how many cells were not judged because the run ended before them
    done: int | None = None  #: how many cells were judged; None if the number is not known
    without_effect: bool = False  #: the patch ran for no judged workload, and changed none
    acts_in: str = ""  #: the check without workload in which the patch acted, if any
    #: a verdict for each missing module that the patch needs, or for which it used a stand-in
    missing: tuple[Verdict, ...] = ()
    quick_look: QuickLook | None = None  #: set if the run left out part of a full gate

    @property
    def colour(self) -> Colour:
        """The worst colour of all verdicts."""
        return next((colour for colour in _WORST_FIRST if self.counts[colour]), Colour.GREEN)

    @property
    def is_idle(self) -> bool:
        """True if the patch runs, and changes nothing on any release."""
        return bool(self.replaces) and not any(effect.applies for effect in self.replaces)

    @property
    def unrecorded(self) -> str:
        """One line about all facts that are not recorded yet and that the patch does not change;
        empty if there are none.
        """
        blocks = [block for block in self.blocks if block.kind is Kind.NEW]
        entries = [entry for block in blocks for entry in block.entries]
        if not entries:
            return ""
        cases = list(dict.fromkeys(entry.subject for entry in entries))
        command = "".join(f" {typed(command)}" for command in blocks[0].steps[0][1][:1])
        # A verdict of this kind begins with the count of its facts.
        count = sum(int(entry.actual.partition(" ")[0]) for entry in entries)
        what = f"new: {counted(count, 'fact')} of {', '.join(cases[:3])}"
        what += ", ..." * (len(cases) > 3)
        what += " that the patch does not change are not recorded yet; "
        changed = [number for number, group in enumerate(self.causes, 1) if group.changes]
        if changed:
            return (
                f"{what}they are recorded together with the changes of cause {changed[0]}, by "
                "its command"
            )
        return f"{what}to record them, run:{command}"

    @property
    def notes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The replacements and the accepted changes of the patch, each as (label, lines)."""
        replaces = [("replaces", tuple(effect.text for effect in self.replaces))]
        changes = [
            (f"changes on torch {torch}, already accepted", tuple(lines))
            for torch, lines in self.changes.items()
        ]
        return tuple((heading, lines) for heading, lines in (*replaces, *changes) if lines)


def view(
    verdicts: Sequence[Verdict], torches: Sequence[str], quick_look: QuickLook | None = None
) -> RunView:
    """The view of a run over `torches`; verdicts may come in any order."""
    columns = tuple(sorted(torches, key=Version))
    causes = group_by_cause(verdicts)
    cells = {place: cell_of(group) for place, group in group_by_cell(verdicts).items()}
    lines = tuple(
        MatrixLine(
            check=check,
            item=item,
            cells=tuple(cells.get((check, item, torch)) for torch in columns),
        )
        for check, item in sorted({place[:2] for place in cells}, key=reading_order)
    )
    counts = Counter(v.colour for v in verdicts)
    inapplicable = {verdict.torch for verdict in verdicts if not verdict.applies}
    return RunView(
        torches=columns,
        columns=tuple(
            f"{torch} (does not apply)" if torch in inapplicable else torch for torch in columns
        ),
        lines=lines,
        replaces=tuple(_replaces(verdicts)),
        changes=_changes(verdicts),
        causes=causes,
        blocks=tuple(_blocks(verdicts, columns, causes)),
        counts={colour: counts[colour] for colour in Colour},
        unjudged=sum(not v.is_judged for v in verdicts),
        stopped=sum(v.kind is Kind.STOPPED for v in verdicts),
        without_effect=_is_without_effect(verdicts),
        acts_in=next((v.item for v in verdicts if v.code in _RAN), ""),
        missing=tuple({(v.code, v.item): v for v in verdicts if v.code in MISSING}.values()),
        quick_look=quick_look,
    )


def _is_without_effect(verdicts: Sequence[Verdict]) -> bool:
    """True if no line of the patch ran where numbers were compared, and nothing changed anywhere.

    The numbers of a simulated device come from code that the facts compare.
    """
    idle = {v.case.device for v in verdicts if v.code == _NOT_ACTED}
    return bool(idle) and not any(
        v.colour is Colour.RED
        or v.share
        or is_change(v)
        or v.kind in (Kind.FIRST, Kind.KNOWN)
        or (v.fact == "bits" and v.case.device in idle)
        for v in verdicts
    )


def reading_order(line: tuple[str, str]) -> tuple[tuple[int, str], str]:
    """The sort key of (check, item)."""
    check, item = line
    return _rank(check), item


def _rank(check: str) -> tuple[int, str]:
    order = families()
    return (order.index(check) if check in order else len(order), check)


def group_by_cell(verdicts: Sequence[Verdict]) -> Mapping[tuple[str, str, str], list[Verdict]]:
    """Verdicts by (check, item, torch)."""
    groups = defaultdict(list)
    for verdict in verdicts:
        groups[verdict.check, verdict.item, verdict.torch].append(verdict)
    return groups


def cell_of(verdicts: Sequence[Verdict]) -> MatrixCell:
    """The summary of the verdicts of one cell. There must be at least one verdict."""
    worst = min((v.colour for v in verdicts), key=_WORST_FIRST.index)
    codes = [v.code for v in verdicts if v.colour is worst]
    unjudged = not all(v.is_judged or v.kind is Kind.STOPPED for v in verdicts)
    return MatrixCell(
        colour=worst, count=len(codes), codes=tuple(sorted({*codes})), unjudged=unjudged
    )


def _replaces(verdicts: Sequence[Verdict]) -> Iterator[Effect]:
    torches = defaultdict(list)
    for verdict in verdicts:
        if (verdict.code, verdict.item) == ("PG211", "effects"):
            torches[verdict.actual, verdict.applies].append(verdict.torch)
    for (actual, applies), on in sorted(torches.items(), key=lambda at: min(map(Version, at[1]))):
        text = f"{actual} (on torch {', '.join(sorted(on, key=Version))})"
        yield Effect(text=text, applies=applies)


def _changes(verdicts: Sequence[Verdict]) -> dict[str, list[str]]:
    cases = defaultdict(list)
    for v in verdicts:
        if v.colour is Colour.GREEN and v.fact in HEADLINES and is_change(v):
            short = replace(v, fact=HEADLINES[v.fact])
            cases[v.torch, v.item].append(change_text(short))
    lines = defaultdict(list)
    for (torch, item), changes in sorted(
        cases.items(), key=lambda case: (Version(case[0][0]), case[0][1])
    ):
        lines[torch].append(f"{item}: {', '.join(sorted(changes, reverse=True))}")
    return dict(lines)


def _blocks(
    verdicts: Sequence[Verdict], torches: Collection[str], causes: Sequence[CauseGroup]
) -> list[Block]:
    named = [(group.cause.name, verdict) for group in causes for verdict in group.verdicts]
    grey = [verdict for verdict in verdicts if verdict.colour is Colour.GREY]
    grey.sort(key=lambda v: (_rank(v.check), v.code, v.subject))
    groups = defaultdict(list)
    for cause, verdict in (*named, *(("", verdict) for verdict in grey)):
        key = verdict.check, verdict.code, verdict.colour, cause, verdict.kind is Kind.NEW
        groups[key].append(verdict)
    return [
        Block(
            code=code,
            title=catalogue()[code].title,
            colour=colour,
            kind=group[0].kind,
            cause=cause,
            unjudged=not all(v.is_judged for v in group),
            check=check,
            cell=_first_cell(group, torches),
            entries=tuple(_entries(group)),
            places=tuple(dict.fromkeys(v.where for v in group if v.where)),
            why=group[0].why,
            steps=tuple(dict.fromkeys((v.advice, v.commands) for v in group)),
        )
        for (check, code, colour, cause, _), group in groups.items()
    ]


def _first_cell(verdicts: Sequence[Verdict], torches: Collection[str]) -> tuple[str, str] | None:
    placed = [verdict for verdict in verdicts if verdict.torch in torches]
    first = min(placed, key=lambda v: (v.subject, v.torch), default=None)
    return (first.item, first.torch) if first else None


def _entries(verdicts: Sequence[Verdict]) -> Iterator[Entry]:
    same = defaultdict(list)
    for v in verdicts:
        same[v.subject, v.expected, v.actual].append(v.torch)
    for (subject, expected, actual), torches in same.items():
        yield Entry(
            torches=tuple(sorted(filter(None, torches), key=Version)),
            subject=subject,
            expected=expected,
            actual=actual,
        )


def step_text(verdict: Verdict) -> str:
    """The next step. Long advice is cut to its first sentence and the command that shows all."""
    advice = f"{verdict.advice[:1].upper()}{verdict.advice[1:]}"
    if len(advice) > LONG:
        explain = typed(Command(name="explain", arguments=(verdict.code,)))
        advice = f"{advice.partition('. ')[0]} (more: {explain})"
    return next_step(advice, verdict.commands)


def verdict_text(verdict: Verdict) -> str:
    """The subject and the result of a verdict, without its code."""
    if is_change(verdict):
        return f"{verdict.item}{on_torches([verdict.torch])}: {change_text(verdict)}"
    return f"{verdict.subject}{on_torches([verdict.torch])}: {verdict.actual}"


def headline_text(verdict: Verdict) -> str:
    """The short text of a verdict, for a list."""
    return verdict_text(replace(verdict, actual=verdict.headline))


def changes_of_red(before: Sequence[Verdict], after: Sequence[Verdict]) -> str:
    """The results that are red only before or only after an edit, as codes and counts:
    `no longer red: PG501 (2), PG510; newly red: PG301`.
    """
    sides = [
        {
            (verdict.code, verdict.subject, verdict.torch)
            for verdict in side
            if verdict.colour is Colour.RED
        }
        for side in (before, after)
    ]
    parts = []
    for words, gone in (("no longer red", sides[0] - sides[1]), ("newly red", sides[1] - sides[0])):
        counts = sorted(Counter(code for code, _, _ in gone).items())
        texts = [f"{code} ({count})" if count > 1 else code for code, count in counts]
        parts += [f"{words}: {', '.join(texts)}"] if texts else []
    return "; ".join(parts) or "the same results are red"


def on_torches(torches: Sequence[str]) -> str:
    return f" on torch {', '.join(torches)}" if any(torches) else ""
