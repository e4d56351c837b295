"""PG9xx: trouble with the machine, never with the patch.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG901",
        title="torch could not be installed or started",
        what="This row of the matrix has no working environment.",
        why="Nothing was measured there, so nothing is known there.",
        fix="Read the reason; run `nox -s row` for that release and look at its output.",
    ),
    Code(
        code="PG902",
        title="the sentinel does not count",
        what="A tiny case with known, non-zero facts gave other facts in this environment.",
        why="Counters that do not count make every other verdict of this row void.",
        fix="Look at the facts of the sentinel: Inductor may have moved what the probe reads.",
    ),
    Code(
        code="PG903",
        title="counters count",
        what="The sentinel case gave exactly its known facts.",
        why="The figures below are figures.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG904",
        title="patchgate itself failed",
        what="A cell ended without a verdict: a defect in patchgate or in the pytest around it.",
        why="Nothing was judged there, and silence is not green.",
        fix="Please report it with the output above and run.json of the results' folder.",
    ),
    Code(
        code="PG905",
        title="the machine failed, not the patch",
        what="Running the patch was cut short from outside: killed, disk full, no answer; also when tried again.",
        why="It is never held against the patch.",
        fix="Run again; if it stays, look at disk, memory and limits.",
    ),
    Code(
        code="PG906",
        title="needs a real device",
        what="This workload's code depends on what runs on the device, or it runs on more devices than there are here;"
        " no simulation can tell.",
        why="A guess would pass or fail for the wrong reason.",
        fix="On a machine with the GPU: nox -s gate -- PATCH --device cuda.",
    ),
)
