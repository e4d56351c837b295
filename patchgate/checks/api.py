"""Do the private names that the patch stands on exist and fit in this torch?

The probe says what is missing. Whether the line that needs it runs is asked of lint, so that both agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from patchgate.checks import registry
from patchgate.checks.application import does_not_run, is_claimed
from patchgate.checks.context import SIMULATED, CheckContext
from patchgate.checks.registry import Instance, check
from patchgate.inputs.source import Unreadable, parse
from patchgate.lint.findings import View
from patchgate.lint.index.release import load
from patchgate.lint.interpret.references import Presence
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.rules.missing_name import missing_references
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
# Of a name that a line of the patch reads.
_NAMES = ("PG103", "PG104")


@check(believes=SIMULATED)
def ask_api(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    targets = list(context.patch.claims.targets or ())
    answer = context.ask(at.case.torch, "surface", SIMULATED, patch=context.patch, targets=targets)
    failure = failure_of(answer)
    if failure:
        return [does_not_run(at.case, failure, context.patch, context.run.again)]
    unneeded = names_not_needed(context.patch.source, at.case.torch) if _any_missing(answer) else frozenset()
    return judge_api(at.case, context.patch, answer, context.manifest_location("targets"), unneeded)


def _any_missing(answer: Mapping[str, Any]) -> bool:
    return any(finding["code"] in _NAMES for finding in answer["findings"])


def names_not_needed(source: str, torch: str) -> frozenset[tuple[int, str]]:
    """(line, name) of each missing name of torch that no line needs which runs on this release: gated or guarded."""
    try:
        view = View(release=(release := load(torch)), usage=interpret(parse(source), release))
    except (KeyError, Unreadable, RecursionError):  # of a release that is not indexed the probe alone can tell
        return frozenset()
    needed = {(each.span.line, each.name) for _, each in missing_references([view]) if each.reachable}
    missing = (each for each in view.usage.references if each.presence is Presence.MISSING)
    return frozenset({(each.span.line, each.name) for each in missing} - needed)


def judge_api(
    case: Case,
    patch: Patch,
    answer: Mapping[str, Any],
    where: str | None,
    unneeded: frozenset[tuple[int, str]] = frozenset(),
) -> Iterator[Verdict]:
    """One verdict a name: PG105 where it holds, else the code that the probe gave. `where` is the claim's place.

    A note is what lint has a note for: a name that no line needs which runs, or that is missing on a release that the
    patch does not claim.
    """
    if not answer["findings"]:
        yield verdict("PG105", Kind.NOTE, case, "", "names of torch", "the patch's own text names none", item="names")
    for finding in answer["findings"]:
        code, line = finding["code"], finding["line"]
        kind = Kind.PASS if code == "PG105" else Kind.REGRESSED
        spared = code in _NAMES and (line, finding["subject"].rpartition(".")[2]) in unneeded
        if kind is Kind.REGRESSED and (spared or (code != "PG102" and not is_claimed(patch, case.torch))):
            kind = Kind.NOTE
        place = f"{shown(patch.path)}:{line}" if line else where
        item, _, fact = finding["subject"].partition(" ")
        yield verdict(code, kind, case, fact, finding["expected"], finding["actual"], place, item=item)
