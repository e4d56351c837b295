"""Whether a patch applies exactly where claimed, and is needed there.

Decides PG201 to PG205 and PG210 from what running the patch under faked versions
changed, and from its symptom's facts. Refuses to run anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchgate.checks.codes import CODES, verdict_of
from patchgate.model.facts import facts_with_compiles, format_value
from patchgate.model.paths import shown
from patchgate.model.predicates import parse_predicate
from patchgate.model.records import (
    Cause,
    Facts,
    FactValue,
    Failure,
    Kind,
    Observation,
    Patch,
    Symptom,
    Unmeasured,
    Verdict,
)
from patchgate.model.serialization import failure_of

Answers = Mapping[str, Mapping[str, Any]]
gate_verdict = partial(verdict_of, "gate")


def versions_around(torch: str) -> tuple[str, ...]:
    """Versions to fake near a release: local, post, dev and rc builds of it, and its neighbours."""
    parsed = Version(torch)
    major, minor, micro = parsed.major, parsed.minor, parsed.micro
    release = f"{major}.{minor}.{micro}"
    # Which minor release came before an x.0 cannot be computed; patch releases of another are usually one.
    before = (f"{major}.{minor - 1}.0", f"{major}.{minor - 1}.1") if minor else ()
    return (
        release,
        f"{release}+cu130",
        f"{release}+cpu",
        f"{release}.post1",
        f"{release}a0+git1234",
        f"{release}rc5",
        f"{release}.dev20260101",
        f"{major}.{minor}.{micro + 1}",
        *before,
        f"{major}.{minor + 1}.0",
        f"{major}.{minor + 1}.0.dev20260101",
    )


def claimed(patch: Patch, version: str) -> bool:
    """Whether `applies_to` covers a version, by PEP 440 and with pre-releases allowed."""
    return SpecifierSet(patch.claims.applies_to or "").contains(version, prereleases=True)


def replaced(patch: Patch, answer: Mapping[str, Any]) -> list[str]:
    """What running the patch changed; a config option counts when it is one of its targets."""
    options = (told["name"] for told in answer.get("effects", ()) if told["kind"] == "config")
    return sorted([*answer["changed"], *(name for name in options if name in (patch.claims.targets or ()))])


def does_not_run(torch: str, failure: Failure, patch: Patch, again: str) -> Verdict:
    """PG210, or PG905 when it was the machine that failed."""
    infra = failure.cause is Cause.MACHINE
    return gate_verdict(
        "PG905" if infra else "PG210",
        Kind.INFRA if infra else Kind.REGRESSED,
        torch,
        "run",
        expected="the module runs",
        actual=f"{failure.cause.value}: {failure.signature}",
        where=shown(failure.where) if failure.where else shown(patch.path),
        next=CODES["PG905"].fix if infra else f"mend it, then: {again}",
    )


def judge_versions(torch: str, patch: Patch, answers: Answers, where: str, again: str) -> Iterator[Verdict]:
    """PG201, PG202 and PG210 from running the patch under each faked version."""
    own = failure_of(dict(answers[torch]))
    if own:
        yield does_not_run(torch, own, patch, again)
        return
    # Under the version of another release the patch may ask for names that only that one has.
    applied = {version: bool(replaced(patch, a)) for version, a in answers.items() if "failure" not in a}
    untold = sorted(answers.keys() - applied.keys(), key=Version)
    if untold:
        actual = f"cannot tell for {', '.join(untold)}: the patch does not run there on torch {torch}"
        yield gate_verdict("PG211", Kind.NOTE, torch, "versions", expected="runs under a faked version", actual=actual)
    if patch.claims.applies_to is None:
        changing = [v for v, did in applied.items() if did or answers[v].get("effects")]
        actual = f"changes torch or its settings on {', '.join(changing)}" if changing else "changes nothing of torch"
        yield gate_verdict("PG211", Kind.NOTE, torch, "versions", expected="(no applies_to claimed)", actual=actual)
        return
    extra = [version for version, did in applied.items() if did and not claimed(patch, version)]
    lacking = [version for version, did in applied.items() if not did and claimed(patch, version)]
    for code, versions, did in (("PG201", extra, "applies"), ("PG202", lacking, "does not apply")):
        if versions:
            yield gate_verdict(
                code,
                Kind.REGRESSED,
                torch,
                "versions",
                expected=f"applies exactly on {patch.claims.applies_to}",
                actual=f"{did} on {', '.join(versions)}",
                where=where,
            )
    if not extra and not lacking:
        yield gate_verdict(
            "PG211",
            Kind.PASS,
            torch,
            "versions",
            expected=f"applies exactly on {patch.claims.applies_to}",
            actual=f"{len(applied)} versions as claimed",
        )


def judge_support(torch: str, patch: Patch, supported: Sequence[str], where: str) -> Iterator[Verdict]:
    """PG220 when no release that is supported is one where the patch applies."""
    if not any(claimed(patch, release) for release in supported):
        actual = f"{patch.claims.applies_to} holds none of {', '.join(supported)}"
        expected = "applies on a release of ci/matrix.toml"
        yield gate_verdict("PG220", Kind.REGRESSED, torch, "support", expected=expected, actual=actual, where=where)


def judge_symptom(
    torch: str,
    patch: Patch,
    symptom: Symptom,
    unpatched: Observation,
    patched: Observation,
    where: str,
    again: str,
) -> Verdict:
    """PG203, PG204 or PG205: is the patch needed where it is gated out, and does it cure where it applies?"""
    holds = parse_predicate(symptom.predicate)
    sides = facts_with_compiles(unpatched), facts_with_compiles(patched)
    before, after = (side.get(symptom.fact) for side in sides)
    subject = f"symptom {symptom.workload}.{symptom.device} {symptom.fact} {symptom.predicate}"
    if before is None or isinstance(before, Unmeasured):
        told = unpatched.failure.signature if unpatched.failure else f"no fact {symptom.fact}"
        return gate_verdict("PG212", Kind.UNMEASURED, torch, subject, expected="measured", actual=told, where=where)
    if isinstance(before, str) or isinstance(before, tuple) != symptom.predicate.strip().startswith("contains"):
        told = f"{symptom.fact} is {format_value(before)}: `contains` asks a list, the others a number"
        return gate_verdict("PG212", Kind.UNMEASURED, torch, subject, expected="measured", actual=told, where=where)
    if isinstance(after, Unmeasured):
        return gate_verdict(
            "PG212", Kind.UNMEASURED, torch, subject, expected="measured", actual=after.reason, where=where
        )
    if after is None:
        told = patched.failure.signature if patched.failure else f"no fact {symptom.fact} with the patch"
        infra = patched.failure is not None and patched.failure.cause is Cause.MACHINE
        code, kind = ("PG905", Kind.INFRA) if infra else ("PG205", Kind.REGRESSED)
        return gate_verdict(code, kind, torch, subject, expected="gone with the patch", actual=told, where=where)
    shown = _both(symptom.fact, *sides)
    if claimed(patch, torch):
        if not holds(before):
            return gate_verdict(
                "PG204",
                Kind.ABSORBED,
                torch,
                subject,
                expected="present without the patch",
                actual=shown,
                where=where,
            )
        if holds(after):
            return gate_verdict(
                "PG205",
                Kind.REGRESSED,
                torch,
                subject,
                expected="gone with the patch",
                actual=shown,
                where=where,
            )
        return gate_verdict("PG211", Kind.PASS, torch, subject, expected="cured", actual=shown)
    if holds(before):
        belief = f" (fixed_in = {patch.claims.fixed_in})" if patch.claims.fixed_in else ""
        return gate_verdict(
            "PG203",
            Kind.REGRESSED,
            torch,
            subject,
            expected=f"absent where applies_to = {patch.claims.applies_to} gates the patch out{belief}",
            actual=shown,
            where=where,
            next=f"widen applies_to and the check in the patch to cover {torch}, or correct the claim; then: {again}",
        )
    return gate_verdict("PG211", Kind.PASS, torch, subject, expected="absent where gated out", actual=shown)


def _both(fact: str, unpatched: Facts, patched: Facts) -> str:
    """The fact on both sides; of a `.max`, the whole list that it is the maximum of."""
    names = [fact, fact.removesuffix(".max")] if fact.endswith(".max") else [fact]
    told = []
    for name in names:
        before, after = unpatched.get(name), patched.get(name)
        if before is not None and after is not None:
            told.append(f"{name} {_change(before, after)}")
    return ", ".join(told)


def _change(before: FactValue, after: FactValue) -> str:
    old, new = format_value(before), format_value(after)
    return f"{old} unpatched, {new} patched" if old != new else f"{old} with and without the patch"
