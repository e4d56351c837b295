"""PG62x: whether the modelled time on a simulated device moves by more than the budget `modelled_time` allows.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG621",
        title="over budget by the model of the device",
        what="The time that bytes, matrix products and launches need at least on the simulated device grows by more"
        " than the budget `modelled_time` allows. It is modelled, not measured.",
        why="More traffic or more launches cost time on every step; without a GPU this is the first sign of it.",
        fix="Compare the generated code of both sides, and time it on a real device (`--device cuda`). If the cost is"
        ' meant, say so in patch.toml: [budgets] modelled_time = "0 % .. 2 %".',
    ),
    Code(
        code="PG622",
        title="an unrecorded win by the model of the device",
        what="The modelled time on the simulated device falls by more than the budget `modelled_time` expects.",
        why="A win that nobody has recorded can be lost again without anybody seeing it.",
        fix='Record it in patch.toml: [budgets] modelled_time = "-2 % .. 0 %".',
    ),
    Code(
        code="PG623",
        title="within budget by the model of the device",
        what="The modelled time on the simulated device stays within the budget `modelled_time`.",
        why="The kernels need no more bytes, products or launches than they did; how fast they are is not told.",
        fix="Nothing to do.",
    ),
)
