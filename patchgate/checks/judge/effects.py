"""What running a patch's module does besides replacing its targets once.

Decides PG206 to PG209 and PG213 to PG219 from one application of the patch,
against the targets, the scope and the effects that it claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from patchgate.checks.judge.gate import claimed, gate_verdict, replaced
from patchgate.model.facts import facts_with_compiles, format_value
from patchgate.model.paths import shown
from patchgate.model.records import Cause, Kind, Observation, Patch, Verdict

# Kind of effect -> code; what is not here is a setting or a device.
_CODES = {
    "threads": "PG216",
    "processes": "PG216",
    "network": "PG216",
    "compile": "PG217",
    "files": "PG218",
}
# What the probe found of settings -> code, and what was expected of them.
_SETTINGS = {
    "overwritten": ("PG213", "the user's setting is kept"),
    "unseen": ("PG214", "the same in every thread"),
    "dead": ("PG215", "somebody reads it"),
}


_SHOWN = 4


def judge_effects(torch: str, patch: Patch, answer: Mapping[str, Any], where: str) -> Iterator[Verdict]:
    """One verdict a fault; PG211 when there is none."""
    found = [*_targets(torch, patch, answer, where), *_effects(torch, patch, answer)]
    for name in answer.get("leaks", ()):
        found.append(_red("PG219", torch, name, f"unchanged outside `{patch.claims.scope}`", "changed", where))
    yield from found
    if not found:
        names = replaced(patch, answer)
        besides = [f"{told['kind']} {told['name']}" for told in answer["effects"] if told["name"] not in names]
        actual = ", ".join([*names, *besides]) or "nothing (gated out)"
        expected = "its targets, once, and nothing else"
        yield gate_verdict("PG211", Kind.PASS, torch, "effects", expected=expected, actual=actual)


def judge_outside(torch: str, patch: Patch, where: str, unpatched: Observation, left: Observation) -> Verdict:
    """PG219 where a workload that is compiled after the scope has ended is not what it is without the patch."""
    subject = f"outside {patch.claims.scope} {left.case.workload}.{left.case.device}"
    expected = "the facts of torch without the patch"
    failed = next((side.failure for side in (unpatched, left) if side.failure), None)
    if failed and failed.cause is Cause.MACHINE:
        return gate_verdict("PG905", Kind.INFRA, torch, subject, expected=expected, actual=failed.signature)
    before, after = facts_with_compiles(unpatched), facts_with_compiles(left)
    differing = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    if differing:
        told = [f"{name} {format_value(before[name])} -> {format_value(after[name])}" for name in differing[:_SHOWN]]
        return _red("PG219", torch, subject, expected, "; ".join(told), where)
    return gate_verdict(
        "PG211", Kind.PASS, torch, subject, expected=expected, actual=f"{len(after)} facts as without it"
    )


def _targets(torch: str, patch: Patch, answer: Mapping[str, Any], where: str) -> Iterator[Verdict]:
    targets, changed = patch.claims.targets, replaced(patch, answer)
    if answer["nested"]:
        told = f"wraps itself: {', '.join(answer['nested'])}"
        yield _red("PG206", torch, "effects second import", "applied once", told, where)
    outside = [name for name in changed if targets is not None and name not in targets]
    if outside:
        expected = f"only {', '.join(targets or ())}"
        yield _red("PG207", torch, "effects outside targets", expected, ", ".join(outside), where)
    unreplaced = [name for name in targets or () if name not in changed]
    if changed and unreplaced and claimed(patch, torch):
        told = f"not replaced: {', '.join(unreplaced)}"
        yield _red("PG209", torch, "effects targets", "all of them replaced", told, where)


def _effects(torch: str, patch: Patch, answer: Mapping[str, Any]) -> Iterator[Verdict]:
    for effect in answer["effects"]:
        kind, name = effect["kind"], effect["name"]
        declared = {kind, f"{kind} {name}"} & set(patch.claims.effects)
        if not declared and name not in (patch.claims.targets or ()):
            subject = f"effects import, on {kind}: {name}"
            yield _red(_CODES.get(kind, "PG208"), torch, subject, "none", effect["what"], _place(patch, effect))
    for about, (code, expected) in _SETTINGS.items():
        for effect in answer.get(about, ()):
            subject = f"effects import, {effect['kind']} {effect['name']}"
            verdict = _red(code, torch, subject, expected, effect["what"], _place(patch, effect))
            # An option that is set in one thread only is the patch's own trap, unless it claims just that.
            meant = about == "unseen" and f"thread-local {effect['name']}" in patch.claims.effects
            yield replace(verdict, kind=Kind.NOTE) if meant else verdict


def _place(patch: Patch, effect: Mapping[str, Any]) -> str:
    return f"{shown(patch.path)}:{effect['line'] or 1}"


def _red(code: str, torch: str, subject: str, expected: str, actual: str, where: str) -> Verdict:
    return gate_verdict(code, Kind.REGRESSED, torch, subject, expected=expected, actual=actual, where=where)
