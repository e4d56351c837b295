"""The results of a run, a sweep and a search: `runs` computes and `report` shows them.

Plain records: nothing here reads a file or knows how anything is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from patchgate.model.policy import Colour
from patchgate.model.records import Facts, Verdict, record

Item = TypeVar("Item")


# -- a run


@record
class JudgedCell:
    """A cell of a check and its verdicts."""

    name: str  #: `kernels-2.11.0-h200-pointwise`
    seconds: float = 0.0  #: the time that judging the cell took
    verdicts: tuple[Verdict, ...] = ()

    @property
    def red(self) -> tuple[Verdict, ...]:
        """The verdicts that are red."""
        return tuple(verdict for verdict in self.verdicts if verdict.colour is Colour.RED)


class Progress:
    """Receives the progress of a run, in the thread that carries out the run. This class shows
    nothing.
    """

    def planned(self, cells: Mapping[str, float], kept: Mapping[str, float]) -> None:
        """Called with the cells that will be judged, each with the seconds that its check states.
        `kept` has the seconds of cells whose answers an earlier run has kept.
        """

    def started(self, cell: str) -> None:
        """Called when a cell begins to be judged."""

    def ended(self, cell: JudgedCell) -> None:
        """Called when a cell has been judged."""


# -- history: verdicts and facts over many runs


@record
class Point:
    """The value of one fact in one run."""

    at: str  #: when the run was, in ISO 8601
    torch: str  #: the line of releases; all nightly builds of a release are one line
    patch: str  #: the patch's id, or "unpatched"
    value: str  #: the value as JSON


# Tuples, not dataclasses: the last ten runs of a large history have hundreds of thousands of them.
class VerdictKey(NamedTuple):
    """The subject of a verdict, the same in every run."""

    patch: str
    torch: str  #: the line of releases, as in `Point`
    check: str
    item: str  #: the line of a report's matrix, as in `Verdict`
    fact: str  #: the aspect of the item, as in `Verdict`

    @property
    def subject(self) -> str:
        return f"{self.item} {self.fact}".rstrip()


class VerdictSummary(NamedTuple):
    """The worst verdict on one subject; ordered from green to red."""

    colour: str  #: "green", "grey" or "red"
    code: str
    actual: str  #: the result, in the words of the verdict


#: The verdicts of one run.
RunVerdicts = Mapping[VerdictKey, VerdictSummary]


@record
class Transition:
    """A subject whose verdict changed from one run to the next."""

    key: VerdictKey
    before: VerdictSummary
    after: VerdictSummary

    def __str__(self) -> str:
        """`green -> red (PG301)`, or `PG301 -> PG305` if the colour stayed."""
        if self.before.colour == self.after.colour:
            return f"{self.before.code} -> {self.after.code}"
        because = f" ({self.after.code})" if self.after.code else ""
        return f"{self.before.colour} -> {self.after.colour}{because}"


@record
class FailureGroup:
    """Failures with one signature, which count as one cause."""

    bucket: str  #: "new", "still", "newly silent" or "closed"
    code: str
    signature: str  #: the wording without figures and addresses
    keys: tuple[VerdictKey, ...]  #: the failures in the last run that had this signature


@record
class Regressions:
    """The changes over the last runs."""

    runs: tuple[RunVerdicts, ...]  #: oldest first
    #: Changes from the run before to the last run; None if there is no run before.
    transitions: tuple[Transition, ...] | None
    groups: tuple[FailureGroup, ...]  #: new ones first, closed ones last
    flaky: tuple[VerdictKey, ...]  #: subjects that changed colour again and again


# -- bisect


class Answer(Enum):
    """The answer for one item, in git's words: bad if the question holds."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "cannot tell"

    @property
    def opposite(self) -> Answer:
        return {Answer.GOOD: Answer.BAD, Answer.BAD: Answer.GOOD}.get(self, self)


@record
class Reading:
    """The measurement of one item of a search."""

    answer: Answer
    shown: str  #: the value, or why there is none
    facts: Facts = field(
        default_factory=dict
    )  #: all facts of the case, where the question is about a fact


@record
class MinimalSet(Generic[Item]):
    """Items that together give the answer BAD. Without any one of them, the answer differs."""

    items: tuple[Item, ...]
    doubtful: tuple[Item, ...] = ()  #: items without which the answer is UNKNOWN


@record
class Outcome:
    """The place in a sequence where the answer changes, in either direction."""

    holds: bool  #: True if the question holds from `first` on; False if it held up to `last`
    last: str  #: the last item before the change
    first: str  #: the first item after the change
    between: tuple[str, ...]  #: items that cannot tell: the change is at one of them or `first`
    readings: Mapping[str, Reading]  #: by item, for every item that was measured
    #: how often all known answers change; more than once means that this is only the first change
    turns: int = 1


@record
class TurnFound:
    """An outcome of a search, and the texts that a report shows with it."""

    outcome: Outcome
    what: str  #: the kind of item: "release", "nightly build", "commit" or "commit of torch"
    question: str  #: the question as it was typed
    size: int  #: how many items there were
    labels: Mapping[str, str]  #: the name of each item at the change, for a reader
    commands: Mapping[str, str]  #: the one-line command that asks about each of these items
    notes: tuple[str, ...] = ()  #: notes on the course of the search
    #: Lines on other changes between both sides, by title.
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The result of a search of torch's commits between both sides, or why there is no result; None
    #: if no such search was asked for.
    commits: TurnFound | str | None = None


@record
class CulpritsFound:
    """The fewest parts of a patch that together change an answer."""

    minimal: MinimalSet[str]
    what: str  #: "hunks" or "targets"
    question: str  #: the question as it was typed
    size: int  #: how many parts there were
    #: the one-line commands that ask the question with these parts, and with all other parts
    commands: tuple[str, ...]


@record
class Example:
    """The output of one code for one case of the corpus."""

    code: str
    case: str  #: the case's folder, below the checkout
    where: str  #: file:line below the checkout, as printed; empty if none was printed
    text: str  #: the subject of the verdict, the torch, and the result
    expected: str = ""
