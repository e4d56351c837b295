"""The exit code of a command, from the verdicts that it gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Verdict

# The exit code if only the machine, or patchgate itself, is to blame: try again.
MACHINE = 4


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """0 if nothing is red, 1 if something is red, 3 if nothing was measured, and 4 for a run that
    did not end or that met only trouble with the machine.
    """
    if is_partial(verdicts):
        return MACHINE
    if any(verdict.colour is Colour.RED for verdict in verdicts):
        return 1
    if not all(verdict.is_judged for verdict in verdicts):
        return MACHINE
    return 0 if verdicts else 3


def is_partial(verdicts: Iterable[Verdict]) -> bool:
    """True if the run was stopped: the next run of the same content continues it."""
    return any(verdict.kind is Kind.STOPPED for verdict in verdicts)
