"""The result of a search as text: where the answer changes, the other changes there, and the
commands that show both sides.

A list of changes is cut after some lines and says how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.model.facts import format_value, value_in
from patchgate.model.results import CulpritsFound, Outcome, TurnFound

_LONGEST = 24


def render_turn(turn: TurnFound) -> Iterator[str]:
    """Yield lines about the change of an answer, and about its commit of torch if searched."""
    outcome, labels = turn.outcome, turn.labels
    verb = "holds" if outcome.holds else "no longer holds"
    if outcome.between:
        between = ", ".join(labels[item] for item in outcome.between)
        yield (
            f"the {turn.what} from which `{turn.question}` {verb} is one of: {between}, "
            f"{labels[outcome.first]}"
        )
    else:
        yield f"first {turn.what} in which `{turn.question}` {verb}: {labels[outcome.first]}"
    for side, item in (("last before", outcome.last), ("first after", outcome.first)):
        yield f"  {side}: {labels[item]}  {outcome.readings[item].shown}"
    yield f"  asked {len(outcome.readings)} of {turn.size}" + "".join(
        f"; {note}" for note in turn.notes
    )
    if outcome.turns > 1:
        yield (
            f"  the recorded answer changes {outcome.turns} times in this range; this is the "
            "first change"
        )
    yield from _section("facts that changed", changed_facts(outcome))
    for title, lines in turn.changes.items():
        yield from _section(title, lines)
    yield "see both sides:"
    yield from (f"  {turn.commands[item]}" for item in (outcome.last, outcome.first))
    if isinstance(turn.commits, TurnFound):
        yield from render_turn(turn.commits)
    elif turn.commits is not None:
        yield f"no commit of torch can be named; {turn.commits}"


def render_culprits(culprits: CulpritsFound) -> Iterator[str]:
    """Lines about a minimal set of hunks or targets."""
    minimal = culprits.minimal
    yield (
        f"{len(minimal.items)} of {culprits.size} {culprits.what} together turn "
        f"`{culprits.question}`:"
    )
    yield from (f"  {item}" for item in minimal.items)
    if minimal.doubtful:
        yield f"  (unknown without {', '.join(minimal.doubtful)})"
    yield "see both sides:"
    yield from (f"  {line}" for line in culprits.commands)


def changed_facts(outcome: Outcome) -> list[str]:
    """`loads.max: 6 -> 2` for each fact that differs between both sides of the change."""
    before, after = outcome.readings[outcome.last].facts, outcome.readings[outcome.first].facts
    names = sorted(before.keys() | after.keys()) if before and after else []
    return [
        f"{name}: {format_value(value_in(before, name))} -> {format_value(value_in(after, name))}"
        for name in names
        if value_in(before, name) != value_in(after, name)
    ]


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"{title}:"
        yield from (f"  {line}" for line in lines[:_LONGEST])
        if len(lines) > _LONGEST:
            yield f"  and {len(lines) - _LONGEST} more"
