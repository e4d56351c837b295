"""PG120: a version check is true on no release that the project supports. PG131: an early return is
always taken.

Red if a replacement is therefore installed on none of the releases. If the project states no range,
the rows of the matrix are judged; without a matrix, every indexed release.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Gate, Span
from patchgate.model.records import read_codes

DEAD_GATE, ALWAYS_LEFT = read_codes("""
PG120 version check is never true
    The version check is true on no torch release that the project supports: those of `torch_range`
    in its table or of its own requirements; where it states neither, those of ci/matrix.toml, else
    the indexed ones.
    Why: The guarded code never runs, so a defect in it is not noticed.
    Fix: Correct the check, or remove the code that it guards.
PG131 early return is always taken
    The version check of an early return is true on every torch release, so that a replacement below
    it is never installed.
    Why: The patch does nothing, and no message says so.
    Fix: Correct the check: one of `not a or b` and `not a and b` is written in place of the other.
""")
# Suffixes of builds by device, by vendor or by commit, which no index has.
_BUILD = re.compile(
    r"['\"][^'\"]*(?:\+|\b(?:cpu|cu\d|cuda|xpu|npu|musa|amd|nv|fb|intel|ipex|post)|rocm|hip|git|\da0)"
)


def check(views: Sequence[View]) -> Iterator[Finding]:
    yield from _always_left(views)
    in_matrix = [view for view in views if view.in_matrix]
    judged, which = (views, "indexed release")
    if in_matrix:
        judged, which = in_matrix, "release that `patchgate gate` judges"
    gates: dict[Span, list[tuple[View, Gate]]] = {}
    for view in judged:
        for gate in view.usage.gates:
            if gate.reachable:
                gates.setdefault(gate.span, []).append((view, gate))
    blocking = _blocking(judged)
    for span, evaluated in gates.items():
        if any(gate.holds is not False for _, gate in evaluated):
            continue
        # A check that is true for nightlies or local builds of several releases is meant for such
        # builds, so its bound is not wrong.
        special = sum(gate.holds_somewhere for _, gate in evaluated) >= min(2, len(evaluated))
        special = special or any(_BUILD.search(gate.text) for _, gate in evaluated)
        severity = Severity.RED if span in blocking and not special else Severity.NOTE
        for view, gate in evaluated:
            message = (
                f"`{gate.text}` is true on no {which} ({judged[0].version} to {judged[-1].version})"
            )
            yield view.finding(DEAD_GATE, span, message, severity=severity)


def _always_left(views: Sequence[View]) -> Iterator[Finding]:
    """Report each early return that is taken for every spelling of every version, if a replacement
    below it is therefore never installed.
    """
    left: dict[Span, set[Span]] = {}
    installed: set[Span] = set()
    for view in views:
        for rebinding in view.usage.rebindings:
            if rebinding.left_by is not None:
                left.setdefault(rebinding.left_by, set()).add(rebinding.span)
            if rebinding.reachable:
                installed.add(rebinding.span)
    gates_at: dict[Span, list[tuple[View, Gate]]] = {span: [] for span in left}
    for view in views:
        for gate in view.usage.gates:
            if gate.span in gates_at:
                gates_at[gate.span].append((view, gate))
    for span, waiting in left.items():
        gates = gates_at[span]
        if waiting & installed or not all(gate.holds_everywhere for _, gate in gates):
            continue
        for view, gate in gates:
            message = f"`{gate.text}` is always true, so that nothing below this early return runs"
            yield view.finding(ALWAYS_LEFT, span, message)


def _blocking(views: Sequence[View]) -> set[Span]:
    """The version checks around replacements that no release installs."""
    waiting: dict[Span, set[Span]] = {}
    installed: set[Span] = set()
    for view in views:
        for rebinding in view.usage.rebindings:
            waiting.setdefault(rebinding.span, set()).update(rebinding.gates)
            if rebinding.reachable:
                installed.add(rebinding.span)
    return {gate for span, gates in waiting.items() if span not in installed for gate in gates}
