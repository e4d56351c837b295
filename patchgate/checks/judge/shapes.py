"""Facts of a script of sizes -> PG42x where torch compiles more, breaks more or gives up; otherwise as golden says.

Decides which of the changed facts tells what happened: the others of that way of compiling follow from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from patchgate.checks.codes import CODES
from patchgate.checks.judge.facts import judge_facts
from patchgate.model.facts import format_value
from patchgate.model.records import Facts, FactValue, Kind, Observation, Verdict

# The first that grew wins: a broken graph compiles more often, and whoever gives up has compiled before.
_WORSE = (
    ("PG423", ("shapes.eager.", "shapes.limit.")),
    ("PG422", ("shapes.breaks.",)),
    ("PG421", ("shapes.compiled.",)),
)
_REASONS = ("shapes.break.", "shapes.reason.")


def judge_shapes(*, unpatched: Observation, patched: Observation, **held: Any) -> Iterator[Verdict]:
    """Verdicts of one case, `held` as for `judge_facts`: one for each way of compiling that got worse."""
    worse = _worse(unpatched.facts, patched.facts)
    told = set()
    for verdict in judge_facts("shapes", unpatched=unpatched, patched=patched, **held):
        fact = verdict.subject.rpartition(" ")[2]
        mode = _mode(fact)
        if verdict.kind is not Kind.REGRESSED or mode not in worse:
            yield verdict
        elif mode not in told:
            told.add(mode)
            yield _summed(verdict, mode, worse[mode], unpatched.facts, patched.facts)


def _mode(fact: str) -> str:
    return fact.split(".")[2] if fact.count(".") > 1 else ""


def _worse(before: Facts, after: Facts) -> dict[str, str]:
    """Way of compiling -> the code of what grew."""
    found: dict[str, str] = {}
    for code, prefixes in _WORSE:
        for fact in after:
            if fact.startswith(prefixes) and _amount(after[fact]) > _amount(before.get(fact, 0)):
                found.setdefault(_mode(fact), code)
    return found


def _amount(value: FactValue) -> int:
    if isinstance(value, tuple):
        return sum(value)
    return value if isinstance(value, int) else 0


def _summed(verdict: Verdict, mode: str, code: str, before: Facts, after: Facts) -> Verdict:
    counts = [f"shapes.{name}.{mode}" for name in ("compiled", "breaks", "eager", "limit")]
    known = set(before.values())
    reasons = [str(after[fact]) for fact in sorted(after) if fact.startswith(_REASONS) and _mode(fact) == mode]
    added = [reason for reason in reasons if reason not in known]
    return replace(
        verdict,
        code=code,
        subject=f"{verdict.subject.split()[0]} {mode}",
        expected=_counts(counts, before),
        actual="; ".join([_counts(counts, after), *added]),
        why=CODES[code].why,
        next=CODES[code].fix,
    )


def _counts(names: list[str], facts: Facts) -> str:
    return ", ".join(f"{name.split('.')[1]} {format_value(facts[name])}" for name in names if name in facts)
