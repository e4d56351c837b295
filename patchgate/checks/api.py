"""Do the private names that the patch stands on exist and fit in this torch?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from patchgate.checks import registry
from patchgate.checks.application import does_not_run
from patchgate.checks.context import SIMULATED, CheckContext
from patchgate.checks.registry import Instance, check
from patchgate.model.paths import shown
from patchgate.model.records import Case, Code, Kind, Patch, Verdict
from patchgate.model.serialization import failure_of

FAMILY = "api"
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
verdict = partial(registry.verdict, FAMILY)


@check(believes=SIMULATED)
def ask_api(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    targets = list(context.patch.claims.targets or ())
    answer = context.ask(at.case.torch, "surface", SIMULATED, patch=context.patch, targets=targets)
    failure = failure_of(answer)
    if failure:
        return [does_not_run(at.case, failure, context.patch, context.run.again)]
    return judge_api(at.case, context.patch, answer, context.manifest_location("targets"))


def judge_api(case: Case, patch: Patch, answer: Mapping[str, Any], where: str | None) -> Iterator[Verdict]:
    """One verdict a name: PG105 where it holds, else the code that the probe gave. `where` is the claim's place."""
    if not answer["findings"]:
        yield verdict("PG105", Kind.NOTE, case, "", "names of torch", "the patch's own text names none", item="names")
    for finding in answer["findings"]:
        code, line = finding["code"], finding["line"]
        kind = Kind.PASS if code == "PG105" else Kind.REGRESSED
        place = f"{shown(patch.path)}:{line}" if line else where
        item, _, fact = finding["subject"].partition(" ")
        yield verdict(code, kind, case, fact, finding["expected"], finding["actual"], place, item=item)
