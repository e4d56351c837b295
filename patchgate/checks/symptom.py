"""Is the defect present without the patch, absent with it, and absent where the patch does not
apply?
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from packaging.version import Version

from patchgate.checks.framework import (
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Observation,
    Patch,
    Verdict,
    Verdicts,
    fault_of,
    read_codes,
    then,
    verdict_of,
)
from patchgate.checks.holders import condition_place
from patchgate.inputs.golden import Ranges, load_golden, values_by_release
from patchgate.inputs.manifest import Symptom
from patchgate.lint.index.release import releases
from patchgate.model.facts import UNPATCHED, facts_with_compiles, format_value, parse_predicate
from patchgate.model.records import Command, Facts, FactValue, Unmeasured
from patchgate.model.versions import in_order, range_text

FAMILY = "gate"
CODES = read_codes("""
PG203 version check too narrow: the symptom is present where the patch does not apply
    On this torch the patch does not apply, but its symptom is present.
    Why: A user who upgrades torch loses the fix without any message. `fixed_in` was assumed, not
    measured.
    Fix: Widen `applies_to` (and the check in the patch) to cover this release, correct `fixed_in`,
    or correct the symptom.
PG204 not needed: the symptom is absent without the patch
    The patch applies on this torch, but the defect that it fixes is absent.
    Why: Users of that release carry the risk of a patch that torch does not need any more.
    Fix: Narrow `applies_to` to the releases that show the symptom, or drop the patch.
PG205 the patch does not fix its symptom
    The patch applies, and its symptom is still present.
    Why: Users still have the defect: either the patch does nothing here, or the symptom is not the
    defect that it fixes.
    Fix: Compare the facts of the symptom's workload with and without the patch.
PG212 the symptom could not be measured
    The fact that the symptom names was not reported for the unpatched workload.
    Why: It is unknown whether the patch is needed there, and unknown is not green.
    Fix: Compare the name of the fact with verdicts.json or golden/, and check the workload on that
    torch.
""")
_GONE = "gone with the patch"


def _cases(patch: Patch, torch: str) -> list[Case]:
    symptom = patch.claims.symptom
    return (
        [Case(torch=torch, device=symptom.device, workload=symptom.workload, patch=patch.id)]
        if symptom
        else []
    )


@Check(axes=("torch", "device", "workload"), cases=_cases, seconds=2)
def ask_symptom(context: CheckContext, at: Instance) -> Verdicts:
    symptom = context.patch.claims.symptom
    assert symptom is not None
    sides = context.observations(at.case, measured=True)
    where, again = context.patch.place_of("applies_to"), context.run.again
    golden = context.golden(symptom.workload, symptom.device)
    recorded = golden.sections.get(UNPATCHED, {}).get(symptom.fact, {})
    return [judge_symptom(context.patch, symptom, *sides, where, again, recorded)]


def judge_symptom(
    patch: Patch,
    symptom: Symptom,
    unpatched: Observation,
    patched: Observation,
    where: str,
    again: Command,
    recorded: Ranges | None = None,
) -> Verdict:
    """PG203 if the patch does not apply here but is needed, PG204 if the defect is absent without
    the patch, PG205 if the patch does not remove it.

    `recorded` is the symptom's fact without the patch, by release. It shows on which other releases
    the patch is needed.
    """
    case, fact = patched.case, f"{patched.case.name} {symptom.fact} {symptom.predicate}"
    say = partial(verdict_of, FAMILY, case=case, fact=fact, item="symptom")
    before, after = (facts_with_compiles(side).get(symptom.fact) for side in (unpatched, patched))
    unmeasured = _unmeasured(symptom, unpatched, before) or (
        after.reason if isinstance(after, Unmeasured) else ""
    )
    if unmeasured:
        return say("PG212", Kind.UNMEASURED, expected="measured", actual=unmeasured, where=where)
    if after is None:
        actual = (
            patched.failure.text if patched.failure else f"no fact {symptom.fact} with the patch"
        )
        fault = fault_of(None, patched.failure)
        kind = fault.kind if fault else Kind.REGRESSED
        code = "PG905" if kind is Kind.INFRA else "PG205"
        return say(code, kind, expected=_GONE, actual=actual, where=where)
    assert before is not None
    both = _both(symptom.fact, facts_with_compiles(unpatched), facts_with_compiles(patched))
    holds = parse_predicate(symptom.predicate)
    present, absent = _recorded_releases(holds, recorded or {})
    told = (both, *([_on_releases(present, absent)] if present or absent else []))
    there, remains = holds(before), holds(after)
    if not patch.is_claimed(case.torch):
        if there:
            needed = range_text(present, releases()) if present else case.torch
            return _gated_out(patch, say, needed, told, where, again)
        expected = "absent where the patch does not apply"
        return say("PG211", Kind.PASS, expected=expected, actual=told)
    if not there:
        expected = "present without the patch"
        return say("PG204", Kind.ABSORBED, expected=expected, actual=told, where=where)
    if remains:
        return say("PG205", Kind.REGRESSED, expected=_GONE, actual=told, where=where)
    return say("PG211", Kind.PASS, expected="cured", actual=told)


def _gated_out(
    patch: Patch,
    say: Callable[..., Verdict],
    needed: str,
    actual: tuple[str, ...],
    where: str,
    again: Command,
) -> Verdict:
    """PG203: the patch does not apply here, but is needed on the releases `needed`."""
    return say(
        "PG203",
        Kind.REGRESSED,
        expected=f"absent where the patch does not apply; claimed: {_stated_range(patch)}",
        actual=actual,
        where=where,
        advice=f"the patch is needed on {needed}: let applies_to and the version "
        f"check{condition_place(patch)} cover it, or correct the claim",
        commands=(then(again),),
    )


def _stated_range(patch: Patch) -> str:
    stated = {"applies_to": patch.claims.applies_to, "fixed_in": patch.claims.fixed_in}
    return ", ".join(f'{key} = "{value}"' for key, value in stated.items() if value)


def recorded_symptom(symptom: Symptom, folder: Path) -> dict[str, bool | None]:
    """Release -> True if the symptom is recorded as present without the patch, False if it is
    recorded as absent, None if the release has no record. Empty if no release has one.
    """
    golden = load_golden(symptom.workload, symptom.device, folder)
    recorded = golden.sections.get(UNPATCHED, {}).get(symptom.fact)
    if not recorded:
        return {}
    present, absent = _recorded_releases(parse_predicate(symptom.predicate), recorded)
    known = {**dict.fromkeys(present, True), **dict.fromkeys(absent, False)}
    first = min(map(Version, known))
    return {torch: known.get(torch) for torch in releases() if Version(torch) >= first}


def _recorded_releases(
    holds: Callable[[FactValue], bool], recorded: Ranges
) -> tuple[list[str], list[str]]:
    """The releases on which the symptom is recorded as present, and as absent."""
    values = {
        torch: holds(value) for torch, value in values_by_release(recorded, releases()).items()
    }
    present, absent = (
        [torch for torch, value in values.items() if value is there] for there in (True, False)
    )
    return present, absent


def _on_releases(present: list[str], absent: list[str]) -> str:
    """A sentence on the record, such as `recorded without the patch: defect present on 2.10.0 to
    2.13.0 (patch needed), absent on 2.14.1 to 2.15.0; 2.14.0: not recorded`.
    """
    on = [range_text(torches, releases()) for torches in (present, absent)]
    recorded = in_order([*present, *absent])
    gaps = [
        torch
        for torch in releases()
        if torch not in recorded and Version(recorded[0]) < Version(torch) < Version(recorded[-1])
    ]
    needed = " (patch needed)" if present else ""
    text = f"recorded without the patch: defect present on {on[0]}{needed}, absent on {on[1]}"
    return text + (f"; {', '.join(gaps)}: not recorded" if gaps else "")


def _unmeasured(symptom: Symptom, unpatched: Observation, value: FactValue | None) -> str:
    """The reason why the predicate cannot be applied to the symptom's fact; empty if it can."""
    if value is None or isinstance(value, Unmeasured):
        return unpatched.failure.text if unpatched.failure else f"no fact {symptom.fact}"
    if isinstance(value, str) or isinstance(value, tuple) != symptom.predicate.strip().startswith(
        "contains"
    ):
        return (
            f"{symptom.fact} is {format_value(value)}: `contains` needs a list, every other "
            "predicate a number"
        )
    return ""


def _both(fact: str, unpatched: Facts, patched: Facts) -> str:
    """The values of a fact on both sides; for a fact `NAME.max`, also those of the list `NAME`,
    whose maximum it is.
    """
    names = [fact, fact.removesuffix(".max")] if fact.endswith(".max") else [fact]
    sides = [(name, unpatched.get(name), patched.get(name)) for name in names]
    texts = [
        (name, format_value(a), format_value(b))
        for name, a, b in sides
        if a is not None and b is not None
    ]
    moved = [
        f"{name} {before} unpatched, {after} patched"
        for name, before, after in texts
        if before != after
    ]
    same = ", ".join(f"{name} {before}" for name, before, after in texts if before == after)
    return ", ".join([*moved, *([f"{same} with and without the patch"] if same else [])])
