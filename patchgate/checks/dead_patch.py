"""Does the patch change anything at all on the releases that it is judged on?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdict,
    Verdicts,
    by_package,
    display_path,
    failure_of,
    read_codes,
    replaced_names,
    verdict_of,
)
from patchgate.checks.framework.context import is_changed
from patchgate.checks.framework.find_checks import REST
from patchgate.inputs.split_patches import uncalled_installers
from patchgate.model.records import Command

FAMILY = "gate"
CODES = read_codes("""
PG221 changes nothing on any release
    On every release that was judged, running the patch replaced no name of torch, defined no
    operator and had no effect. patchgate compares names, tables, settings, thread-locals and the
    objects that these refer to. It is red where the manifest names `targets`; it is a note where
    nothing claims a change, where the patch called functions of torch (patchgate does not see what
    they do in C++), and where it changes something under another version.
    Why: A patch that does nothing passes every other check, and its users believe that the defect
    is fixed.
    Fix: If nothing calls the function that installs the patch, name it in the manifest
    (`apply = "install"`), or call it at import. If an environment variable switches it on, set that
    in the manifest (`environment`). If the patch is meant for other releases, claim them in
    `applies_to`. If it only offers functions that others call, claim `targets = []`; a context
    manager is named as `scope`.
""")
# Finds the name of an environment variable that a line reads.
_READ_VARIABLE = re.compile(
    r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](\w+)["'](?!\s*\]\s*=[^=])"""
    r"""|["'](\w+)["'] (?:not )?in (?:os\.)?environ"""
)
verdict = partial(verdict_of, FAMILY, item="changes")


# Release -> the answer to running the patch, which holds its changes.
Answers = Mapping[str, Answer]


# A patch with a scope is not asked: its changes may happen only during a compile.
@Check(believes=SIMULATED, wanted=lambda run, patch: not patch.claims.scope, seconds=0.1)
def ask_dead_patch(context: CheckContext, at: Instance) -> Verdicts:
    """Judge all releases of a run at once."""
    first, *_ = context.run.rows
    if at.case.torch != first:
        raise NothingToJudge(f"judged with torch {first}, for all releases of the run")
    answers = {torch: context.apply(torch) for torch in context.run.rows}
    ran = {torch: answer for torch, answer in answers.items() if "failure" not in answer}
    if not ran:
        raise NothingToJudge("does not run: see the result of version_gate")
    left_out = () if any(map(is_changed, ran.values())) else context.run.torches_left_out
    faked = context.apply_under(first, left_out, context.patch) if left_out else {}
    elsewhere = [
        torch for torch, answer in faked.items() if "failure" not in answer and is_changed(answer)
    ]
    changed = judge_changes(at.case, context.patch, ran, context.run.again, elsewhere)
    return [
        changed,
        *_parts(context, at.case, ran),
        *_rest(at.case, [*filter(context.is_unchanged, ran)]),
    ]


def _rest(case: Case, unchanged: Sequence[str]) -> Verdicts:
    """One verdict on the releases where few workloads were measured because nothing changed."""
    if unchanged:
        actual = (
            f"the patch changes nothing on {', '.join(unchanged)}: only a few workloads were "
            "measured there"
        )
        yield verdict("PG211", Kind.PASS, case, REST, "measured where anything changes", actual)


def _parts(context: CheckContext, case: Case, together: Answers) -> Verdicts:
    """Judge each call by itself if several calls install the patch."""
    calls = context.patch.claims.apply if len(context.patch.claims.apply) > 1 else ()
    for call in calls:
        part = replace(context.patch, claims=replace(context.patch.claims, apply=(call,)))
        alone = {torch: context.apply_under(torch, [torch], part)[torch] for torch in together}
        yield judge_part(case, part, alone, together)


def judge_part(case: Case, part: Patch, alone: Answers, together: Answers) -> Verdict:
    """Return PG811 if other calls undo changes of this call, PG221 if this call changes nothing.
    `alone` has the answers to this call, and `together` the answers to all calls, by release.
    """
    (call,) = part.claims.apply
    say = partial(verdict, case=case, fact=call, where=part.place, item="parts")
    ran = {torch: answer for torch, answer in alone.items() if "failure" not in answer}
    if not ran:
        failure = failure_of(next(iter(alone.values())))
        actual = failure.text if failure else ""
        return say("PG211", Kind.NOTE, expected="runs alone", actual=actual)
    gone = {
        name
        for torch, answer in ran.items()
        for name in answer["changed"]
        if name not in together[torch]["changed"]
    }
    if gone:
        actual = f"undone by the other functions: {', '.join(sorted(gone))}"
        return say("PG811", Kind.REGRESSED, expected="in place next to the others", actual=actual)
    names = sorted({name for answer in ran.values() for name in replaced_names(part, answer)})
    effects = sorted(
        {effect["name"] for answer in ran.values() for effect in answer["effects"]} - {*names}
    )
    say = partial(say, expected="a change of its own")
    if names or effects:
        return say("PG211", Kind.PASS, actual=", ".join([*names, *effects]))
    return say("PG221", Kind.REGRESSED, actual=f"nothing on {', '.join(ran)}")


def judge_changes(
    case: Case,
    patch: Patch,
    answers: Answers,
    again: Command,
    elsewhere: Sequence[str] = (),
) -> Verdict:
    """Return PG211 if the patch changes something on a release or need change nothing, else PG221.

    `again` repeats the run. `elsewhere` has releases that the run leaves out, but under whose faked
    versions the patch changes something.
    """
    expected = "a change of torch, of its settings or of the process"
    holds = _as_claimed(patch, answers)
    packages = dict.fromkeys(filter(None, map(by_package, answers.values())))
    if not holds and packages:
        actual = f"nothing in addition: {'; '.join(packages)}"
        return verdict("PG211", Kind.NOTE, case, "", expected, actual)
    if holds:
        return verdict("PG211", Kind.PASS, case, "", expected, holds)
    nothing = f"nothing on {', '.join(answers)}"
    if elsewhere:
        there = f"under the version {', '.join(elsewhere)} it changes torch"
        advice = (
            f"The run was narrowed (--torch {','.join(answers)}): judge it there too "
            f"(`--torch {elsewhere[0]}`)."
        )
        seen = nothing, there
        return verdict("PG221", Kind.WARNING, case, "", expected, seen, advice=advice)
    calls = _sorted_names(answers, "calls")
    if calls:
        seen = f"{nothing} that can be seen", f"it calls {', '.join(calls)}"
        return _dead(case, patch, expected, seen, None)
    return _dead(case, patch, expected, (nothing,), again)


def _as_claimed(patch: Patch, answers: Answers) -> str:
    """The change, or the reason why no change is needed; empty if a change is missing."""
    claims = patch.claims
    changing = [torch for torch, answer in answers.items() if is_changed(answer)]
    if changing:
        held = _sorted_names(answers, "held")
        return f"on {', '.join(changing)}" + (f": {', '.join(held)}" if held else "")
    offers = _sorted_names(answers, "offers")
    if offers and not claims.targets:
        return f"nothing, and offers {', '.join(offers)}"
    if claims.targets == () and not claims.apply:
        return "nothing, as `targets = []` claims"
    if claims.applies_to is not None and not any(patch.is_claimed(torch) for torch in answers):
        return f"gated out on {', '.join(answers)}, as {claims.applies_to} claims"
    return ""


def _sorted_names(answers: Answers, kind: str) -> list[str]:
    """The names of one kind in all answers."""
    return sorted({name for answer in answers.values() for name in answer.get(kind, ())})


def _dead(
    case: Case, patch: Patch, expected: str, actual: tuple[str, ...], again: Command | None
) -> Verdict:
    """PG221 with a possible reason: an installer that nothing calls, or a variable that nothing
    sets.

    Without `again`, the verdict is always a note.
    """
    uncalled = uncalled_installers(patch.source) if not patch.claims.apply else {}
    place = f"{display_path(patch.path)}:{next(iter(uncalled.values()), 1)}"
    if not again:
        return verdict("PG221", Kind.WARNING, case, "", expected, actual, place)
    # Without claimed targets, the patch may be right to change nothing here: it may be a module of
    # functions that others call, or leave this release out by a check of its own.
    kind = Kind.REGRESSED if patch.claims.targets else Kind.WARNING
    say = partial(verdict, "PG221", kind, case, "", expected)
    given = {each.partition("=")[0] for each in patch.claims.environment}
    variables = sorted(
        {one or other for one, other in _READ_VARIABLE.findall(patch.source)} - given
    )
    if uncalled:
        uses = f"nothing in the file calls {', '.join(f'`{name}`' for name in uncalled)}"
        names = json.dumps([*uncalled]) if len(uncalled) > 1 else f'"{next(iter(uncalled))}"'
        advice = (
            f"nothing calls it: name it in the manifest (`apply = {names}`), or call it at import"
        )
        _, *options = again.arguments
        files = [f"{display_path(patch.path)}::{name}" for name in uncalled]
        return say(
            (*actual, uses),
            place,
            advice=advice,
            commands=tuple(replace(again, arguments=(f, *options)) for f in files),
        )
    if not variables:
        return say(actual, place)
    reads = f"it reads {', '.join(variables)}, which the gate does not set"
    names = ", ".join(f'"{name}=..."' for name in variables)
    return say(
        (*actual, reads),
        place,
        advice=f"if your launcher sets it, say so in the manifest (`environment = [{names}]`)",
    )
