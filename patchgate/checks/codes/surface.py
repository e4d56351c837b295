"""PG1xx: the part of torch's private API that a patch stands on.

Decides the texts of these codes. PG101 to PG109 are found in the running
torch, PG110 and up are found without one.
"""

from __future__ import annotations

from patchgate.model.records import Code

CODES = (
    Code(
        code="PG101",
        title="target does not exist",
        what="The manifest (or the patch) names a target that this torch does not have.",
        why="Assigning it creates a new attribute that nothing in torch ever calls.",
        fix="Correct the dotted name, or narrow `applies_to` to the releases that have it.",
    ),
    Code(
        code="PG102",
        title="replacement cannot take the calls that the original takes",
        what="A parameter of the original is missing, renamed, or required in the replacement.",
        why="A caller inside torch that passes it raises TypeError in the middle of a compile.",
        fix="Give the replacement the original's parameters; `*args, **kwargs` also covers later ones.",
    ),
    Code(
        code="PG103",
        title="attribute used by the patch is missing",
        what="The patch reads an attribute that its owner does not have in this torch.",
        why="The replacement raises AttributeError as soon as that line runs.",
        fix="Use the name that this release has, guard the access, or narrow `applies_to`.",
    ),
    Code(
        code="PG104",
        title="module or name imported by the patch is missing",
        what="An import of torch's in the patch does not resolve in this torch.",
        why="The patch fails on import, or, inside a function, in the middle of a compile.",
        fix="Import it from where this release has it, or narrow `applies_to`.",
    ),
    Code(
        code="PG105",
        title="surface holds",
        what="Every target, import and attribute that the patch uses exists and fits in this torch.",
        why="A compatible surface is the first condition of everything else.",
        fix="Nothing to do.",
    ),
)
