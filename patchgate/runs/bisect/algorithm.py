"""Search algorithms: find where a sequence turns from good to bad, and which few of many items
together make the answer bad.

A skipped item (`Answer.UNKNOWN`) is replaced by its neighbours; skipped items around the turn are
named. The algorithm is generic: the caller defines what an item is and how to ask about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from patchgate.model.records import record
from patchgate.model.results import Answer, MinimalSet

Item = TypeVar("Item")
Ask = Callable[[Item], Answer]


class Unbracketed(Exception):
    """An end of the sequence has the wrong answer: the first item must be good, the last bad."""

    def __init__(self, item: object, wanted: Answer, got: Answer) -> None:
        self.item, self.wanted, self.got = item, wanted, got
        super().__init__(f"{item} is {got.value}, not {wanted.value}")


@record
class Turn(Generic[Item]):
    """A good item and the first bad one after it; both were asked, never inferred."""

    last_good: Item
    first_bad: Item
    #: items without an answer: the turn is at one of them or at `first_bad`
    between: tuple[Item, ...] = ()


def first_bad(sequence: Sequence[Item], ask: Ask[Item]) -> Turn[Item]:
    """The first bad item after a good one, in at most 2 + ceil(log2(len - 1)) questions if
    every question is answered. No item is asked twice.

    Raises Unbracketed if the first item is not good or the last item is not bad.
    """
    if len(sequence) < 2:
        raise ValueError("a search needs two ends")
    good, bad = 0, len(sequence) - 1
    for end, wanted in ((good, Answer.GOOD), (bad, Answer.BAD)):
        got = ask(sequence[end])
        if got is not wanted:
            raise Unbracketed(sequence[end], wanted, got)
    unknown: set[int] = set()
    while candidates := [at for at in range(good + 1, bad) if at not in unknown]:
        middle = min(candidates, key=lambda at: abs(2 * at - good - bad))
        answer = ask(sequence[middle])
        if answer is Answer.GOOD:
            good = middle
        elif answer is Answer.BAD:
            bad = middle
        else:
            unknown.add(middle)
    return Turn(
        last_good=sequence[good], first_bad=sequence[bad], between=tuple(sequence[good + 1 : bad])
    )


def bracket(sequence: Sequence[Item], known: Mapping[Item, Answer]) -> Sequence[Item]:
    """Return the part of `sequence` around the first change in the known answers, in which the
    search continues.
    """
    start = 0
    for at, item in enumerate(sequence):
        if known.get(item) is Answer.BAD and at > start:
            return sequence[start : at + 1]
        if known.get(item) is Answer.GOOD:
            start = at
    return sequence[start:] if start < len(sequence) - 1 else sequence


def turns_in(sequence: Sequence[Item], known: Mapping[Item, Answer]) -> list[tuple[Item, Item]]:
    """Pairs of neighbours with opposite answers. Items without an answer are skipped."""
    answered = [item for item in sequence if known.get(item, Answer.UNKNOWN) is not Answer.UNKNOWN]
    return [(one, other) for one, other in pairwise(answered) if known[one] is not known[other]]


def minimise(items: Sequence[Item], ask: Ask[Sequence[Item]]) -> MinimalSet[Item]:
    """The items of a smallest bad subset, by delta debugging (Zeller's ddmin).

    Raises Unbracketed if all items together are not bad, or if the empty subset is not good.
    """
    for subset, wanted in (((), Answer.GOOD), (tuple(items), Answer.BAD)):
        got = ask(subset)
        if got is not wanted:
            raise Unbracketed("all of them together" if subset else "none of them", wanted, got)
    left, pieces = tuple(items), 2
    while len(left) > 1:
        smaller = next(
            (subset for subset in _smaller(left, pieces) if ask(subset) is Answer.BAD), None
        )
        if smaller is not None:
            pieces = max(pieces - 1, 2) if len(smaller) > len(left) // 2 else 2
            left = smaller
        elif pieces < len(left):
            pieces = min(pieces * 2, len(left))
        else:
            break
    without = (
        {item: tuple(other for other in left if other != item) for item in left}
        if len(left) > 1
        else {}
    )
    return MinimalSet(
        items=left,
        doubtful=tuple(item for item, rest in without.items() if ask(rest) is Answer.UNKNOWN),
    )


def _smaller(items: tuple[Item, ...], pieces: int) -> Iterator[tuple[Item, ...]]:
    """Each piece, then each piece's complement; the complements of two pieces are the pieces
    themselves.
    """
    bounds = [round(piece * len(items) / pieces) for piece in range(pieces + 1)]
    spans = list(pairwise(bounds))
    yield from (items[start:stop] for start, stop in spans)
    if pieces > 2:
        yield from (items[:start] + items[stop:] for start, stop in spans)


def majority(ask: Ask[Item], needed: int, times: int) -> Ask[Item]:
    """Ask a flaky question up to `times` times until `needed` answers agree; UNKNOWN if they never
    do.
    """
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
