"""The answer of a search as text: what turned where, what changed with it, and how to see both sides.

Decides order and wording. Refuses to search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from patchgate.runs.bisect.search import Minimal
from patchgate.runs.bisect.told import Outcome

_LONGEST = 24


def render_turn(
    outcome: Outcome,
    *,
    what: str,
    question: str,
    of: int,
    label: Callable[[str], str],
    again: Callable[[str], str],
    notes: Sequence[str],
    around: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[str]:
    """Lines about the turn: `again` is the one-line command that asks one item, `around` titles with their lines."""
    verb = "holds" if outcome.holds else "no longer holds"
    if outcome.between:
        told = ", ".join(map(label, outcome.between))
        yield f"the {what} from which `{question}` {verb} is one of: {told}, {label(outcome.first)}"
    else:
        yield f"first {what} in which `{question}` {verb}: {label(outcome.first)}"
    for side, item in (("last before", outcome.last), ("first after", outcome.first)):
        yield f"  {side}: {label(item)}  {outcome.readings[item].shown}"
    yield f"  asked {outcome.asked} of {of}" + "".join(f"; {note}" for note in notes)
    if outcome.turns > 1:
        yield f"  the records turn {outcome.turns} times in this range; this is the first"
    yield from _listed("facts that changed", outcome.changed_facts)
    for title, lines in around.items():
        yield from _listed(title, lines)
    yield "see both sides:"
    yield from (f"  {again(item)}" for item in (outcome.last, outcome.first))


def render_minimal(found: Minimal[str], *, what: str, question: str, of: int, again: Sequence[str]) -> Iterator[str]:
    """Lines about a minimal set; `again` are the commands with it, and with all the others."""
    yield f"{len(found.items)} of {of} {what} together turn `{question}`:"
    yield from (f"  {item}" for item in found.items)
    if found.doubtful:
        yield f"  (without {', '.join(found.doubtful)} nobody could tell)"
    yield "see both sides:"
    yield from (f"  {line}" for line in again)


def _listed(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:_LONGEST])
        if len(lines) > _LONGEST:
            yield f"  and {len(lines) - _LONGEST} more"
