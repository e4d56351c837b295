"""Do the private names that the patch uses exist in this torch, with fitting parameters?

The probe finds missing names. Lint says if the line that needs a missing name runs: so both agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Patch,
    Verdicts,
    display_path,
    does_not_run,
    failure_of,
    read_codes,
    verdict_of,
)
from patchgate.inputs.patch_source import Unreadable, parse
from patchgate.lint.findings import Severity, View
from patchgate.lint.index.records import Function, misfit
from patchgate.lint.index.release import Release, load, releases
from patchgate.lint.interpret.references import Presence
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.rules import missing_target
from patchgate.lint.rules.missing_name import missing_references, near_name

FAMILY = "api"
CODES = read_codes("""
PG101 target does not exist
    The manifest names a target that this torch does not have. The patch does not add it either, or
    it adds a function by a name that other releases have, or that is spelled nearly like one that
    torch has.
    Why: Users get torch without the patch: assigning the target creates a new attribute that
    nothing in torch calls.
    Fix: Correct the dotted name, or narrow `applies_to` to the releases that have it.
PG102 replacement cannot take the calls that the original takes
    A parameter of the original is missing or required in the replacement, or has another name
    there, though torch passes it by name.
    Why: Users get a TypeError in the middle of a compile, from a caller inside torch that passes
    the parameter.
    Fix: Give the replacement the original's parameters; `*args, **kwargs` also covers later ones.
PG103 attribute used by the patch is missing
    The patch reads an attribute that its owner does not have in this torch. Or it replaces an
    attribute that only other releases have, or one that no release has, though torch has the name
    of the assigned value (`torch.a.stat = mine.stats`).
    Why: Users get an AttributeError as soon as that line runs; a replacement under a name that
    torch does not have is never called, and they get torch without it.
    Fix: Use the name that this release has, guard the access, or narrow `applies_to`.
PG104 module or name imported by the patch is missing
    The patch imports a module or name of torch that this release does not have.
    Why: Users of this release cannot import the patch; where the import is in a function, their
    compile fails.
    Fix: Import it from where this release has it, or narrow `applies_to`.
PG105 names exist and fit
    Every target, import and attribute that the patch uses exists and fits in this torch.
    Why: Everything else depends on these names.
    Fix: Nothing to do.
PG106 replacement loses what the original returns
    It calls the original as a statement and returns nothing, though the original returns a value.
    Why: Users get None from `generator = torch.manual_seed(0)`, and later code fails, or runs
    without the generator.
    Fix: Return what the call of the original gives.
""")
verdict = partial(verdict_of, FAMILY)
# The codes of a name that a line of the patch reads.
_NAMES = ("PG103", "PG104")
# The value of `expected` in the probe's finding on a name that the patch adds to torch.
ADDED = "new in torch"


@Check(believes=SIMULATED)
def ask_api(context: CheckContext, at: Instance) -> Verdicts:
    targets = context.patch.claims.targets_on(at.case.torch)
    answer = context.ask_once(
        at.case.torch, "surface", SIMULATED, patch=context.patch, targets=targets
    )
    failure = failure_of(answer)
    if failure:
        return [does_not_run(at.case, failure, context.patch, context.run.again)]
    source, torch, findings = context.patch.source, at.case.torch, answer["findings"]
    asks_names = any(each["code"] in _NAMES for each in findings)
    unneeded = names_not_needed(source, torch) if asks_names else frozenset()
    has_added = any(each["expected"] == ADDED for each in findings)
    new = missing_targets(source, torch) if has_added else {}
    judged = {"findings": [as_in_lint(each, torch, new) for each in findings]}
    return judge_api(at.case, context.patch, judged, context.patch.place_of("targets"), unneeded)


def as_in_lint(finding: Answer, torch: str, new: Mapping[str, tuple[int, str]]) -> Answer:
    """Correct a finding by what lint knows: does torch pass a parameter by name, and is a name that
    the patch adds misspelt or from another release?
    """
    kind, _, name = finding["subject"].partition(" ")
    owner, _, last = name.rpartition(".")
    if finding["expected"] == ADDED and last in new:
        line, actual = new[last]
        code = {"code": "PG101"} if kind == "target" else {"code": "PG103", "line": line}
        return finding | code | {"expected": "exists", "actual": actual}
    if finding["expected"] == ADDED and kind == "target":
        near = near_name(_release(torch), owner, last)
        if near:
            actual = f"not a name of torch, so the patch adds it; did you mean `{near}`?"
            return finding | {"code": "PG101", "expected": "exists", "actual": actual}
    if finding.get("by_name") and not passed_by_name(name, finding["by_name"], torch):
        actual = f"{finding['actual']}, but no call in torch passes it by name"
        return finding | {"code": "PG105", "actual": actual}
    return finding


def passed_by_name(target: str, parameters: Sequence[str], torch: str) -> bool:
    """True if a call in torch that matches the signature of `target` names one of `parameters`."""
    release = _release(torch)
    owner, _, name = target.rpartition(".")
    found = release.member(owner, name) or release.resolve(target)
    function = found.symbol if found is not None else None
    for site in release.calls(target.split(".")[-2] if name == "__init__" else name):
        if {*site.keywords}.isdisjoint(parameters):
            continue
        if not isinstance(function, Function):
            return True
        bound = function.form in ("method", "class") and site.receiver != ":"
        if misfit(function.parameters, site, bound=bound) is None:
            return True
    return False


def _release(torch: str) -> Release:
    """The index of a release; if the release is not indexed, that of the newest indexed release."""
    return load(torch if torch in releases() else releases()[-1])


def missing_targets(source: str, torch: str) -> dict[str, tuple[int, str]]:
    """Map each name that the patch adds to torch by mistake to its line and the reason. As in
    lint's PG126, the name is from another release, or misspelt.
    """
    view = _view(source, torch)
    if view is None:
        return {}
    red = [each for each in missing_target.check([view]) if each.severity is Severity.RED]
    said = {each.span.line: each.fix or "only in other releases" for each in red}
    return {
        each.name: (each.span.line, said[each.span.line])
        for each in view.usage.rebindings
        if each.span.line in said
    }


def _view(source: str, torch: str) -> View | None:
    """Lint's view of the patch; None if the release is not indexed or the patch cannot be read, so
    that only the probe can judge.
    """
    try:
        return View(release=(release := load(torch)), usage=interpret(parse(source), release))
    except (KeyError, Unreadable, RecursionError):
        return None


def names_not_needed(source: str, torch: str) -> frozenset[tuple[int, str]]:
    """Return (line, name) for each name that is missing in torch but not needed, because a version
    check or a `try` keeps the line from running on this release.
    """
    view = _view(source, torch)
    if view is None:
        return frozenset()
    needed = {
        (each.span.line, each.name) for _, each in missing_references([view]) if each.reachable
    }
    missing = (each for each in view.usage.references if each.presence is Presence.MISSING)
    return frozenset({(each.span.line, each.name) for each in missing} - needed)


def judge_api(
    case: Case,
    patch: Patch,
    answer: Answer,
    where: str | None,
    unneeded: frozenset[tuple[int, str]] = frozenset(),
) -> Verdicts:
    """One verdict for each name: PG105 if it fits, else the code that the probe gave.

    `where` is the place of the claim.

    A missing name is a note if lint has a note for it: no line that runs needs it, or the patch
    does not claim the release.
    """
    if not answer["findings"]:
        actual = "the text of the patch uses none"
        yield verdict("PG105", Kind.NOTE, case, "", "names of torch", actual, item="names")
    for finding in answer["findings"]:
        code, line = finding["code"], finding["line"]
        kind = Kind.PASS if code == "PG105" else Kind.REGRESSED
        spared = code in _NAMES and (line, finding["subject"].rpartition(".")[2]) in unneeded
        if kind is Kind.REGRESSED and (
            spared or (code != "PG102" and not patch.is_claimed(case.torch))
        ):
            kind = Kind.NOTE
        place = f"{display_path(patch.path)}:{line}" if line else where
        item, _, fact = finding["subject"].partition(" ")
        yield verdict(
            code, kind, case, fact, finding["expected"], finding["actual"], place, item=item
        )
