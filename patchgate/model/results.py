"""Results of a run, a sweep, a search and a comparison with a real device: what `runs` computes and `report` shows.

Plain records: nothing here reads a file or knows how anything is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from patchgate.model.records import Case, Expectation, Facts, Observation, Patch, Verdict
from patchgate.model.statistics import Interval

Item = TypeVar("Item")


# -- a run: its verdicts and the evidence in its folder


@dataclass(frozen=True, kw_only=True)
class ComparedCase:
    """One patched case with everything that its verdicts compare."""

    #: The patched case.
    case: Case
    #: What golden holds for the patched case and for the unpatched one.
    golden: Expectation
    golden_unpatched: Expectation
    #: Both sides as they were observed; None where the unpatched side was not.
    unpatched: Observation | None
    patched: Observation
    #: Generated code (unpatched, patched); None where a side's was not kept.
    code: tuple[str, str] | None
    #: The device: "real (NAME)" or "simulated (NAME)".
    on: str

    @property
    def name(self) -> str:
        """As verdicts call it: `residual_stack.h200`."""
        return f"{self.case.workload}.{self.case.device}"


@dataclass(frozen=True, kw_only=True)
class TimeRatio:
    """The time of one workload at one size, patched to unpatched."""

    #: `residual_stack.cuda`
    name: str
    torch: str
    #: The size as it was asked for: a number of tokens, or "full".
    size: str
    #: The ratio with its interval: 1.02 is 2 % slower with the patch.
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """One patch on some torches: its verdicts and their evidence."""

    patch: Patch
    torches: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    compared: tuple[ComparedCase, ...] = ()
    times: tuple[TimeRatio, ...] = ()


# -- history: verdicts and facts over many runs


@dataclass(frozen=True, kw_only=True)
class Point:
    """The value of one fact in one run."""

    #: When the run was, in ISO 8601.
    at: str
    #: The line of releases: each nightly build continues the one before.
    torch: str
    #: The patch's id, or "unpatched".
    patch: str
    #: The value as JSON.
    value: str


# Tuples, not dataclasses: the last ten runs of a large history have hundreds of thousands of them.
class VerdictKey(NamedTuple):
    """What a verdict is about, the same in every run."""

    patch: str
    #: The line of releases, as in `Point`.
    torch: str
    check: str
    #: The line of a report's matrix, and what of it: as in `Verdict`.
    item: str
    fact: str

    @property
    def subject(self) -> str:
        return f"{self.item} {self.fact}".rstrip()


class VerdictSummary(NamedTuple):
    """The worst verdict on one subject; ordered from green to red."""

    #: "green", "grey" or "red"
    colour: str
    code: str
    #: What was found, as the verdict words it.
    actual: str


#: The verdicts of one run.
RunVerdicts = Mapping[VerdictKey, VerdictSummary]


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A subject whose verdict changed from one run to the next."""

    key: VerdictKey
    before: VerdictSummary
    after: VerdictSummary

    def __str__(self) -> str:
        """`green -> red (PG301)`, or `PG301 -> PG305` where the colour stayed."""
        if self.before.colour == self.after.colour:
            return f"{self.before.code} -> {self.after.code}"
        because = f" ({self.after.code})" if self.after.code else ""
        return f"{self.before.colour} -> {self.after.colour}{because}"


@dataclass(frozen=True, kw_only=True)
class FailureGroup:
    """Failures with one signature, which is taken for one cause."""

    #: "new", "still", "newly silent" or "closed"
    bucket: str
    code: str
    #: The wording without figures and addresses.
    signature: str
    #: Its failures in the last run that had any.
    keys: tuple[VerdictKey, ...]


@dataclass(frozen=True, kw_only=True)
class Regressions:
    """What changed over the last runs."""

    #: Oldest first.
    runs: tuple[RunVerdicts, ...]
    #: From the run before to the last one; None where there is no run before.
    transitions: tuple[Transition, ...] | None
    #: New ones first, closed ones last.
    groups: tuple[FailureGroup, ...]
    #: Subjects that changed colour again and again.
    flaky: tuple[VerdictKey, ...]


# -- bisect


class Answer(Enum):
    """What asking one item gives, in git's words: bad where the question holds."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "cannot tell"

    @property
    def opposite(self) -> Answer:
        return {Answer.GOOD: Answer.BAD, Answer.BAD: Answer.GOOD}.get(self, self)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was measured for one item of a search."""

    answer: Answer
    #: The value, or why there is none.
    shown: str
    #: All facts of the case, where the question is about a fact.
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MinimalSet(Generic[Item]):
    """Items that are bad together; without any one of them the answer is another."""

    items: tuple[Item, ...]
    #: Those without which the answer is UNKNOWN.
    doubtful: tuple[Item, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Where the answer to a question turned along a sequence, in either direction."""

    #: Whether the question holds from `first` on; if not, it held up to `last`.
    holds: bool
    #: The last item before the turn, and the first after it.
    last: str
    first: str
    #: Items that cannot tell: the turn is at one of them or at `first`.
    between: tuple[str, ...]
    #: By item, for every item that was measured.
    readings: Mapping[str, Reading]
    #: How many items were measured.
    asked: int
    #: How often all known answers turn; more than once means that this is only the first turn.
    turns: int = 1


@dataclass(frozen=True, kw_only=True)
class TurnFound:
    """An outcome with what a reader needs to see both sides."""

    outcome: Outcome
    #: What was searched: "release", "nightly build", "commit" or "commit of torch".
    what: str
    #: The question as it was typed.
    question: str
    #: How many items there were.
    size: int
    #: How a reader knows each item at the turn, and the one-line command that asks it.
    labels: Mapping[str, str]
    commands: Mapping[str, str]
    notes: tuple[str, ...] = ()
    #: Lines on what else changed at the turn, by title.
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What a search of torch's commits between both sides found, or why there is none; None where nobody asked.
    commits: TurnFound | str | None = None


@dataclass(frozen=True, kw_only=True)
class CulpritsFound:
    """The fewest parts of a patch that turn an answer together."""

    minimal: MinimalSet[str]
    #: "hunks" or "targets"
    what: str
    #: The question as it was typed.
    question: str
    #: How many parts there were.
    size: int
    #: The one-line commands that ask with these parts, and with all others.
    commands: tuple[str, ...]


# -- fidelity: the simulated device against the real one


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One fact with its two values, as they would stand in golden."""

    fact: str
    real: str
    simulated: str


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """One case on a real device and on its simulation."""

    torch: str
    workload: str
    #: The patch's id; None for unpatched.
    patch: str | None
    #: How many facts were compared.
    compared: int = 0
    #: Those that differ.
    unlike: tuple[Difference, ...] = ()
    #: Facts that were not compared, each with the reason.
    excluded: Mapping[str, str] = field(default_factory=dict)
    #: Why nothing was compared; empty when something was.
    failed: str = ""
