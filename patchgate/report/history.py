"""Render a history as text: a series of values, the changes since the last run, and a check-list
for an umbrella issue.

Long lists are cut; patch names and messages are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from patchgate.checks.framework.find_checks import title_of
from patchgate.model.results import Point, Regressions, Transition, VerdictKey
from patchgate.model.text import escape_control

_LONGEST = 5


def render_series(points: Sequence[Point]) -> Iterator[str]:
    """One line for each value. A value that repeats is shown once, with the number of runs."""
    for patch, torch in sorted({(point.patch, point.torch) for point in points}):
        yield escape_control(f"{patch} on torch {torch}")
        series = (point for point in points if (point.patch, point.torch) == (patch, torch))
        for value, equal in groupby(series, key=lambda point: point.value):
            first, *rest = equal
            times = f" ({len(rest) + 1} runs)" if rest else ""
            yield escape_control(f"  {first.at}  {value}{times}")


def render_regressions(regressions: Regressions) -> Iterator[str]:
    """The changes of the last run, if there was a run before it; then the failures."""
    if regressions.transitions is not None:
        yield from render_transitions(regressions.transitions)
    yield from render_checklist(regressions)


def render_transitions(transitions: Sequence[Transition]) -> Iterator[str]:
    """Lines about verdicts that differ from the verdicts of the run before."""
    count = len(transitions)
    yield (
        f"{count} checks changed since the last run"
        if count
        else "nothing changed since the last run"
    )
    for transition in transitions:
        title = title_of(transition.after.code)
        yield f"  {_place(transition.key)}: {transition}{f': {title}' if title else ''}"


def render_checklist(regressions: Regressions) -> Iterator[str]:
    """A Markdown list with a box for each cause; the box is ticked if the cause is closed."""
    if not regressions.groups:
        yield "no failures"
    for group in regressions.groups:
        box = "x" if group.bucket == "closed" else " "
        cause = (
            f"{group.code} {title_of(group.code)}: {_escape(group.signature)} "
            f"({len(group.keys)} checks)"
        )
        yield f"- [{box}] **{group.bucket}** {cause}"
        yield from (f"  - {_escape(_place(key))}" for key in group.keys[:_LONGEST])
        if len(group.keys) > _LONGEST:
            yield f"  - and {len(group.keys) - _LONGEST} more"
    if regressions.flaky:
        yield f"- [ ] **flaky** ({len(regressions.flaky)} checks)"
        yield from (f"  - {_escape(_place(key))}" for key in regressions.flaky[:_LONGEST])


def _escape(text: str) -> str:
    return escape_control(text).replace("<", "&lt;").replace("`", "'")


def _place(key: VerdictKey) -> str:
    return escape_control(f"{key.patch} on torch {key.torch}: {key.check} {key.subject}")
