"""PG5xx: whether the numbers stay in the class that the patch claims.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG501",
        title="not bit-identical",
        what='The patch claims `numerics = "bit-identical"` (the default), and outputs differ bit for bit.',
        why="Any job that compares sampled text or checksums exactly can flip; this is why vLLM #42686 was reverted.",
        fix='If rounding may move, claim `numerics = "rounding"` in patch.toml and say so in the PR.',
    ),
    Code(
        code="PG502",
        title="less accurate than eager and unpatched",
        what="The error against a float64 reference is larger than `error_factor` times the larger of eager's"
        " and unpatched's: of all elements together, or grossly of one.",
        why="Rounding differently is fine; rounding worse is a defect.",
        fix='Look for a lost upcast or a changed order of reduction; or claim `numerics = "changes"`.',
    ),
    Code(
        code="PG503",
        title="numbers hold",
        what="The outputs stay in the class that the patch claims.",
        why="This is what a reviewer cannot see by reading.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG505",
        title="more than rounding",
        what='The patch claims `numerics = "rounding"`, and an output moves by more than `largest_ulps` (8) units in'
        " the last place of its dtype.",
        why="Rounding an intermediate moves an output by a few ulps; more is another computation.",
        fix="Find the first intermediate at which they part; or claim the ulps that are meant: `largest_ulps = 16`.",
    ),
    Code(
        code="PG506",
        title="special inputs come out otherwise",
        what="For inputs with NaN, infinities, very large or denormal values, of one row or of none, an output is NaN,"
        " infinite or finite where it is that neither unpatched nor in eager; or an error comes or goes.",
        why="A NaN that is swallowed hides a broken training run; one that is made up breaks a good one.",
        fix="Look for a comparison that NaN fails, or for an intermediate in a type that overflows earlier.",
    ),
    Code(
        code="PG507",
        title="mathematically equal configurations no longer agree",
        what="Static and dynamic shapes, a batch and its single rows, the whole graph and its pieces, opaque and eager"
        " attention, or two ranks that split a model by its columns or its rows differ from each other more with the"
        " patch than without it.",
        why="Users mix these: the same prompt then gives another answer, depending on what it is batched with.",
        fix="Decide by what is the same in all of them, not by hints about sizes or by where a graph ends.",
    ),
    Code(
        code="PG510",
        title="sampled tokens change",
        what='The patch claims `numerics = "bit-identical"`, and a small decoder with random weights gives other'
        " tokens.",
        why="A job that compares sampled text exactly will flip; this is what failed for vLLM #42686.",
        fix='Claim `numerics = "rounding"`, and tell whoever compares text exactly how often it will flip.',
    ),
    Code(
        code="PG511",
        title="runs differ from one another",
        what="Two runs of the same compiled workload on the same inputs differ bit for bit, on the side that is named.",
        why="Where runs differ by themselves, a difference from unpatched says nothing of the patch.",
        fix="Look for atomics, threads or random numbers in that side's code, and judge it where runs repeat.",
    ),
    Code(
        code="PG508",
        title="parity could not be measured",
        what="The compiled workload could not be run on this machine.",
        why="A patch is not bit-identical because nobody looked.",
        fix="Install a C++ compiler (g++ or clang++) so that the CPU backend can run.",
    ),
    Code(
        code="PG504",
        title="the patched workload does not run",
        what="Unpatched the workload runs on the CPU; with the patch it fails.",
        why="The same happens to whoever compiles such a model.",
        fix="Read the failure; it names the stage and the line.",
    ),
    Code(
        code="PG509",
        title="the machine failed, not the patch",
        what="The unpatched side of this comparison failed, or the machine did, also when tried again.",
        why="It is never held against the patch.",
        fix="Run again; if it stays, look at disk, memory and limits.",
    ),
)
