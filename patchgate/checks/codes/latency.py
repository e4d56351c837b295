"""PG61x: whether a workload is slower than the budgets `latency`, `cpu_latency` and `peak_memory` allow.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG611",
        title="over budget on the device",
        what="The whole interval of the ratio patched / unpatched lies above the budget `latency`, on the CPU"
        " `cpu_latency`; or peak memory is above `peak_memory`.",
        why="Whoever serves this model pays it on every step.",
        fix="Compare the generated code of both sides; if the cost is accepted, widen the budget in patch.toml and"
        " say so in the PR.",
    ),
    Code(
        code="PG612",
        title="an unrecorded win on the device",
        what="The whole interval of the ratio lies below the budget `latency`, on the CPU `cpu_latency`; or peak"
        " memory is below `peak_memory`.",
        why="A win that nobody has recorded can be lost again without anybody seeing it.",
        fix='Record it in patch.toml: [budgets] latency = "-7 % .. 0.5 %".',
    ),
    Code(
        code="PG613",
        title="within budget on the device",
        what="The whole interval of the ratio lies within the budget.",
        why="Measured in pairs, with placement in memory as part of the noise.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG614",
        title="too close to the budget to tell",
        what="After all looks the interval of the ratio still straddles an end of the budget; or kernels were tuned,"
        " and not every tuning tells the same.",
        why="A verdict here would be a guess.",
        fix="Run on a quieter machine, or move the budget away from what the patch really costs.",
    ),
    Code(
        code="PG619",
        title="could not be timed",
        what="One side did not compile or run on the device, or the machine failed.",
        why="A latency that nobody measured is not within budget.",
        fix="Read the failure; the kernels check tells whose fault it is.",
    ),
)
