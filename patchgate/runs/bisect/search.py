"""Search: where a sequence turns from good to bad, and which few of many items do it.

Decides which item is asked next and what the answers prove. Knows sequences
and questions only: what an item is, and what asking costs, is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Answer(Enum):
    """What asking one item gives."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "cannot tell"

    @property
    def opposite(self) -> Answer:
        return {Answer.GOOD: Answer.BAD, Answer.BAD: Answer.GOOD}.get(self, self)


Ask = Callable[[Item], Answer]


class Unbracketed(Exception):
    """An end of the sequence is not what a search needs: the first good, the last bad."""

    def __init__(self, item: object, wanted: Answer, got: Answer) -> None:
        self.item, self.wanted, self.got = item, wanted, got
        super().__init__(f"{item} is {got.value}, not {wanted.value}")


@dataclass(frozen=True, kw_only=True)
class Turn(Generic[Item]):
    """Both neighbours of the turn were asked themselves, never inferred.

    `between` could not be told: the turn is one of them or `first_bad`.
    """

    last_good: Item
    first_bad: Item
    between: tuple[Item, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Minimal(Generic[Item]):
    """Items that are bad together. Without any one of them the answer is another.

    `doubtful` are those without which nobody could tell.
    """

    items: tuple[Item, ...]
    doubtful: tuple[Item, ...] = ()


def first_bad(sequence: Sequence[Item], ask: Ask[Item]) -> Turn[Item]:
    """The first bad item after a good one, in at most 2 + ceil(log2(len - 1)) questions where all can be told.

    Raises Unbracketed when the first item is not good or the last not bad; no item is asked twice.
    """
    if len(sequence) < 2:
        raise ValueError("a search needs two ends")
    good, bad = 0, len(sequence) - 1
    for end, wanted in ((good, Answer.GOOD), (bad, Answer.BAD)):
        got = ask(sequence[end])
        if got is not wanted:
            raise Unbracketed(sequence[end], wanted, got)
    untold: set[int] = set()
    while open_ones := [at for at in range(good + 1, bad) if at not in untold]:
        middle = min(open_ones, key=lambda at: abs(2 * at - good - bad))
        answer = ask(sequence[middle])
        if answer is Answer.GOOD:
            good = middle
        elif answer is Answer.BAD:
            bad = middle
        else:
            untold.add(middle)
    return Turn(last_good=sequence[good], first_bad=sequence[bad], between=tuple(sequence[good + 1 : bad]))


def narrowed(sequence: Sequence[Item], known: Mapping[Item, Answer]) -> Sequence[Item]:
    """The part of `sequence` that the first turn among the known answers leaves to search."""
    start = 0
    for at, item in enumerate(sequence):
        if known.get(item) is Answer.BAD and at > start:
            return sequence[start : at + 1]
        if known.get(item) is Answer.GOOD:
            start = at
    return sequence[start:] if start < len(sequence) - 1 else sequence


def turns_in(sequence: Sequence[Item], known: Mapping[Item, Answer]) -> list[tuple[Item, Item]]:
    """Neighbouring told items with opposite answers: more than one says that the sequence turns more than once."""
    told = [item for item in sequence if known.get(item, Answer.UNKNOWN) is not Answer.UNKNOWN]
    return [(one, other) for one, other in pairwise(told) if known[one] is not known[other]]


def minimise(items: Sequence[Item], ask: Ask[Sequence[Item]]) -> Minimal[Item]:
    """The items of a smallest bad subset, by delta debugging (Zeller's ddmin).

    Raises Unbracketed when all together are not bad, or nothing at all is not good.
    """
    for subset, wanted in (((), Answer.GOOD), (tuple(items), Answer.BAD)):
        got = ask(subset)
        if got is not wanted:
            raise Unbracketed("all of them together" if subset else "none of them", wanted, got)
    kept, parts = tuple(items), 2
    while len(kept) > 1:
        smaller = next((each for each in _smaller(kept, parts) if ask(each) is Answer.BAD), None)
        if smaller is not None:
            parts = max(parts - 1, 2) if len(smaller) > len(kept) // 2 else 2
            kept = smaller
        elif parts < len(kept):
            parts = min(parts * 2, len(kept))
        else:
            break
    without = {item: tuple(other for other in kept if other != item) for item in kept} if len(kept) > 1 else {}
    return Minimal(items=kept, doubtful=tuple(item for item, rest in without.items() if ask(rest) is Answer.UNKNOWN))


def _smaller(items: tuple[Item, ...], parts: int) -> Iterator[tuple[Item, ...]]:
    """Each part, then each part's complement; of two parts the complements are the parts."""
    bounds = [round(part * len(items) / parts) for part in range(parts + 1)]
    spans = list(pairwise(bounds))
    yield from (items[start:stop] for start, stop in spans)
    if parts > 2:
        yield from (items[:start] + items[stop:] for start, stop in spans)


def voted(ask: Ask[Item], needed: int, times: int) -> Ask[Item]:
    """Ask a flaky question up to `times` times until `needed` answers agree; else nobody can tell."""
    if not times // 2 < needed <= times:
        raise ValueError(f"{needed} of {times} is no majority")

    def answer(item: Item) -> Answer:
        votes: list[Answer] = []
        for _ in range(times):
            votes.append(ask(item))
            if votes.count(votes[-1]) >= needed:
                return votes[-1]
        return Answer.UNKNOWN

    return answer


def remembered(ask: Ask[Item]) -> Ask[Item]:
    """Ask each item once, whoever wants to know it again."""
    answers: dict[Item, Answer] = {}

    def answer(item: Item) -> Answer:
        if item not in answers:
            answers[item] = ask(item)
        return answers[item]

    return answer
