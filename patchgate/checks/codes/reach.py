"""PG8xx: whether anything in torch reaches what the patch has put there.

Decides the texts of these codes.
"""

from __future__ import annotations

from patchgate.model.records import Code

_WORKLOAD = (
    "Add a workload that goes that way: a file `workloads/NAME.py` beside the patch (in fixtures/workloads for every"
    ' patch) with `DTYPE = "float32"`, `CHECKS = ("kernels",)`, `PREMERGE = ("static",)` and `build(device, dtype,'
    " scale)`, which returns a module and its inputs. The condition tells what they must look like: a large tensor, an"
    " integer dtype, a device, a release. Then run the gate again, and `nox -s accept` for the facts. Or take out what"
    " nothing needs."
)

CODES = (
    Code(
        code="PG801",
        title="the original is still held elsewhere",
        what="With the patch applied, other modules, classes or registries of torch lead to the original.",
        why="Whoever got it from there runs unpatched code: the patch covers only some of its callers.",
        fix="Put the replacement into the places named, or patch where the callers look it up.",
    ),
    Code(
        code="PG802",
        title="the target can never be called",
        what="The replaced method is abstract, and every class that can be made overrides it.",
        why="The patch is installed and does nothing.",
        fix="Patch the classes that implement it.",
    ),
    Code(
        code="PG803",
        title="the replacement was never called",
        what="No line of the replacement ran in any workload of the suite on this torch.",
        why="Either nothing calls it any more, or nothing here shows what it does: both are no proof.",
        fix="Add a workload that reaches it (a file in fixtures/workloads with `build(device, dtype, scale)`;"
        " see CONTRIBUTING.md), or drop the patch.",
    ),
    Code(
        code="PG804",
        title="a hook of the user's is no longer called",
        what="A custom pass that a user has installed runs without the patch and not with it.",
        why="The user's pass is switched off without a word.",
        fix="Call what you replace, or apply only where no hook is set.",
    ),
    Code(
        code="PG805",
        title="lines of the patch that never ran",
        what="These lines are in functions of the patch, and no workload of the suite ran them on this torch.",
        why="What never ran was never judged.",
        fix=_WORKLOAD,
    ),
    Code(
        code="PG806",
        title="reach holds",
        what="Everything that led to the originals leads to the replacements, and they are called.",
        why="A patch that nobody calls cures nothing.",
        fix="Nothing to do.",
    ),
    Code(
        code="PG807",
        title="branches of the patch that were never taken",
        what="These conditions and loops of the patch came out one way only, in every workload of the suite on this"
        " torch: never true, never false, never entered or never left.",
        why="The way that was not taken was never judged, also where it has no line of its own.",
        fix=_WORKLOAD,
    ),
    Code(
        code="PG809",
        title="reach could not be judged",
        what="The child that was asked failed without the patch, or nothing could be observed.",
        why="Not known is not green.",
        fix="See the failure; run the gate again.",
    ),
    Code(
        code="PG811",
        title="one patch undoes another",
        what="With both applied, nothing leads any more to what the first had put in place.",
        why="Each is right alone; together one of them is not there.",
        fix="Call what you replace, or install only one of them.",
    ),
    Code(
        code="PG812",
        title="the order of patches matters",
        what="A workload's facts with both patches depend on which was applied first.",
        why="The order of imports is decided elsewhere, by chance.",
        fix="Make them independent, or install them from one place in one order.",
    ),
    Code(
        code="PG813",
        title="two patches do not work together",
        what="Each works alone; with both applied, the patch or a compile fails.",
        why="Whoever installs both has a broken compiler.",
        fix="Read the failure; pass on arguments that you do not know.",
    ),
    Code(
        code="PG814",
        title="patches get along",
        what="Both are in place in either order, and the facts are the same.",
        why="Projects install a dozen patches from one module.",
        fix="Nothing to do.",
    ),
)
