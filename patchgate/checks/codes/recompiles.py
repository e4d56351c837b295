"""PG41x: how often Dynamo compiles, beside what it captures.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG410",
        title="compiled no more often",
        what="Calling a workload again, other instances of it, or with another size compiles as often as unpatched.",
        why="A compile takes seconds, and past the limit of recompiles Dynamo runs the function uncompiled.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG411",
        title="compiled again",
        what="With the patch a further call, another instance or another size compiles graphs that it does not"
        " compile without.",
        why="Each layer of a model then pays for a compile of its own, until the limit of recompiles is reached:"
        " the layers after it run uncompiled.",
        fix="TORCH_LOGS=recompiles names the guard that failed. Keep what differs from instance to instance (a name,"
        " a number, an id) out of what is traced.",
    ),
    Code(
        code="PG412",
        title="sizes became symbolic",
        what="With the patch a graph was compiled for symbolic sizes where without it sizes are numbers.",
        why="Instances that share what was compiled turn a size symbolic as soon as two of them differ: the code for"
        " it is another, is slower, and may not compile at all.",
        fix="Compile each instance by itself, or pin the sizes: `torch.compile(..., dynamic=False)`.",
    ),
    Code(
        code="PG413",
        title="does not run when called again",
        what="With the patch a workload failed while it was called several times; without it, it does not.",
        why="A model calls its layers more than once.",
        fix="Read the failure.",
    ),
    Code(
        code="PG419",
        title="recompiles could not be counted",
        what="The unpatched workload failed, or the machine did.",
        why="Not known is not green.",
        fix="See the failure; run the gate again.",
    ),
)
