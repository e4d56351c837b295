"""PG120: a version check that no row of the matrix satisfies. Red when it keeps a replacement out of all of them.

Where the matrix names none of the releases at hand, the indexed ones are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.interpret.references import Gate, Span


def check(views: Sequence[View]) -> Iterator[Remark]:
    rows = [view for view in views if view.in_matrix]
    judged, which = (rows, "row of the matrix") if rows else (views, "indexed release")
    gates: dict[Span, list[tuple[View, Gate]]] = {}
    for view in judged:
        for gate in view.usage.gates:
            if gate.reachable:
                gates.setdefault(gate.span, []).append((view, gate))
    blocked = _blocked(judged)
    for span, asked in gates.items():
        if any(gate.holds is not False for _, gate in asked):
            continue
        for view, gate in asked:
            yield Remark(
                code="PG120",
                version=view.version,
                span=span,
                message=f"no {which} ({judged[0].version} to {judged[-1].version}) satisfies `{gate.text}`",
                severity=Severity.RED if span in blocked else Severity.NOTE,
            )


def _blocked(views: Sequence[View]) -> set[Span]:
    """Gates behind which a replacement waits that is installed in no release at all."""
    waiting: dict[Span, set[Span]] = {}
    installed: set[Span] = set()
    for view in views:
        for each in view.usage.rebindings:
            waiting.setdefault(each.span, set()).update(each.gates)
            if each.reachable:
                installed.add(each.span)
    return {gate for span, gates in waiting.items() if span not in installed for gate in gates}
