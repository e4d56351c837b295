"""PG60x: whether compiling costs more than the budget `compile_calls` allows.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG601",
        title="compiling costs more than its budget",
        what="With the patch, one compile makes more Python calls than the budget `compile_calls` allows.",
        why="Whoever compiles pays for it, at every start of every process. Calls are counted because seconds"
        " vary from run to run by more than such a patch adds. Work in C++ is not among them: for it, `--nightly`"
        " tells the CPU time of pairs of compiles, and instructions where the processor counts them.",
        fix="Look at the modules whose calls grew. If the price is meant, say so in patch.toml:"
        ' [budgets] compile_calls = "0 % .. 2 %".',
    ),
    Code(
        code="PG602",
        title="compiling costs less, and no budget says so",
        what="With the patch, one compile makes fewer Python calls than the budget `compile_calls` expects.",
        why="A win that is not recorded hides the next loss.",
        fix='Record it in patch.toml: [budgets] compile_calls = "-5 % .. -4 %".',
    ),
    Code(
        code="PG603",
        title="compile work within its budget",
        what="The number of Python calls of one compile stays within the budget `compile_calls`.",
        why="Nobody pays at start-up for what the patch does.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG608",
        title="compile work could not be counted",
        what="A side of this comparison did not compile, or no call was counted.",
        why="Work that was not counted is not zero.",
        fix="Read the failure; whose fault it is, the kernels check says.",
    ),
    Code(
        code="PG609",
        title="the machine failed, not the patch",
        what="The unpatched side of this comparison failed, or the machine did, also when tried again.",
        why="It is never held against the patch.",
        fix="Run again; if it stays, look at disk, memory and limits.",
    ),
)
