"""A question over releases, over commits, or over subsets of a patch: which item is told as what.

Decides what counts as known beforehand, which way the question turns, and
what is said of the answer. Measuring and searching are left to others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from patchgate.inputs.golden import expectation, path_of, read_golden
from patchgate.model.errors import UsageError
from patchgate.model.facts import format_value, value_in
from patchgate.model.records import Case, Facts
from patchgate.model.text import escape_control
from patchgate.runs.bisect.measure import flipped
from patchgate.runs.bisect.question import Question, Reading, read_facts
from patchgate.runs.bisect.search import (
    Answer,
    Minimal,
    Unbracketed,
    first_bad,
    minimise,
    narrowed,
    remembered,
    turns_in,
    voted,
)

Read = Callable[[str], Reading]
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`holds` says which way: the question holds from `first` on, or no longer does."""

    holds: bool
    last: str
    first: str
    between: tuple[str, ...]
    readings: dict[str, Reading]
    asked: int
    turns: int = 1

    @property
    def changed_facts(self) -> list[str]:
        """`loads.max: 6 -> 2` for each fact that is another one after the turn."""
        before, after = self.readings[self.last].facts, self.readings[self.first].facts
        return [f"{name}: {_value(before, name)} -> {_value(after, name)}" for name in _differing(before, after)]


def _differing(before: Facts, after: Facts) -> list[str]:
    names = sorted(before.keys() | after.keys()) if before and after else []
    return [name for name in names if value_in(before, name) != value_in(after, name)]


def _value(facts: Facts, name: str) -> str:
    value = value_in(facts, name)
    return "absent" if value is None else format_value(value)


@dataclass
class Search:
    """One question and how often it is asked: `votes` is (needed, times)."""

    read: Read
    tell: Tell
    votes: tuple[int, int] = (1, 1)
    readings: dict[str, Reading] = field(default_factory=dict)

    def turn(self, items: Sequence[str], known: dict[str, Reading]) -> Outcome:
        """The first turn of the answer along `items`, where `known` ones only narrow what is asked.

        Raises UsageError when both ends answer the same, or an end cannot be told.
        """
        first = known[items[0]] if items[0] in known else self._ask(items[0])
        holds_first = first.answer is Answer.BAD

        def oriented(reading: Reading) -> Answer:
            return (flipped(reading) if holds_first else reading).answer

        answers = {item: oriented(reading) for item, reading in known.items()}
        left = narrowed(items, answers)

        def asked(item: str) -> Answer:
            return oriented(self._ask(item))

        ask = remembered(voted(asked, *self.votes))
        try:
            found = first_bad(left, ask)
        except Unbracketed as error:
            raise self._no_turn(error, items, known) from None
        return Outcome(
            holds=not holds_first,
            last=found.last_good,
            first=found.first_bad,
            between=found.between,
            readings=self.readings,
            asked=len(self.readings),
            turns=max(1, len(turns_in(items, answers))),
        )

    def culprits(self, items: Sequence[str], read: Callable[[Sequence[str]], Reading]) -> Minimal[str]:
        """The fewest of `items` that turn the answer away from what it is without any of them."""
        nothing = read(())
        self._log("none of them", nothing)
        seen: dict[tuple[str, ...], Reading] = {(): nothing}

        def ask(subset: Sequence[str]) -> Answer:
            key = tuple(subset)
            if key not in seen:
                seen[key] = read(subset)
                self._log(f"{len(key)} of {len(items)}: {', '.join(key)}", seen[key])
            reading = seen[key]
            return (flipped(reading) if nothing.answer is Answer.BAD else reading).answer

        try:
            return minimise(items, remembered(voted(ask, *self.votes)))
        except Unbracketed as error:
            raise UsageError(
                "there is nothing to search: the answer is the same with all of them and with none",
                where="bisect",
                got=f"{error.item}: {seen[()].shown if error.item == 'none of them' else seen[tuple(items)].shown}",
                next="ask something that the patch changes",
            ) from None

    def _ask(self, item: str) -> Reading:
        if self.votes == (1, 1) and item in self.readings:
            return self.readings[item]
        return self._reading(item)

    def _reading(self, item: str) -> Reading:
        self.readings[item] = self.read(item)
        self._log(item, self.readings[item])
        return self.readings[item]

    def _log(self, label: str, reading: Reading) -> None:
        word = {Answer.BAD: "holds", Answer.GOOD: "does not", Answer.UNKNOWN: "cannot tell"}[reading.answer]
        self.tell(escape_control(f"  {label}  {word}  {reading.shown}"))

    def _no_turn(self, error: Unbracketed, items: Sequence[str], known: dict[str, Reading]) -> UsageError:
        item = str(error.item)
        reading = self.readings.get(item)
        got = f"{item}: {reading.shown}" if reading else str(error)
        if error.got is Answer.UNKNOWN:
            return UsageError("an end cannot be told", where="bisect", got=got, next="choose another end")
        if reading and item in known and known[item].answer is not reading.answer:
            return UsageError(
                "what is recorded does not hold here",
                where="golden",
                got=f"{got}, recorded: {known[item].shown}",
                next="ask again with --measure-all",
            )
        told = {end: self.readings.get(end) or known[end] for end in (items[0], items[-1])}
        which = "at both ends" if told[items[-1]].answer is Answer.BAD else "at neither end"
        return UsageError(
            f"it holds {which}, so there is no turn to find",
            where="bisect",
            got=", ".join(f"{end}: {one.shown}" for end, one in told.items()),
            next="widen the range, or ask another question",
        )


def recorded(question: Question, patch: str | None, releases: Sequence[str]) -> dict[str, Reading]:
    """What golden says of a fact on each release that it was recorded for."""
    if question.kind != "fact":
        return {}
    golden = read_golden(path_of(question.workload, question.device), question.workload, question.device)
    if patch is not None and patch not in golden.sections:
        return {}
    found = {}
    for torch in releases:
        case = Case(torch=torch, device=question.device, workload=question.workload, patch=patch)
        reading = read_facts(question, expectation(golden, case).facts)
        if reading.answer is not Answer.UNKNOWN:
            found[torch] = reading
    return found
