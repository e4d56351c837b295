"""As sizes change, does torch recompile, break the graph or stop compiling more often than without
the patch?
"""

from __future__ import annotations

from dataclasses import replace

from patchgate.checks.framework import (
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Verdict,
    Verdicts,
    read_codes,
    verdict_of,
)
from patchgate.checks.framework.golden_verdicts import Compared, fact_verdicts, judge_facts
from patchgate.model.facts import format_value, growth, increase
from patchgate.model.records import Facts

FAMILY = "shapes"
# Recorded facts have the codes of the graph check: PG400 to PG409.
CODES = read_codes("""
PG421 compiles more often as sizes change
    Called with the same script of sizes, the patched workload is compiled more often than the
    unpatched.
    Why: Each compile stops a server for seconds, at a size that no test used.
    Fix: Read the reason: it is the guard that failed. Use a condition that holds for every size, or
    `guard_or_false` and similar functions, which add no guard.
PG422 breaks the graph as sizes change
    Called with the same script of sizes, the patched workload has more graph breaks than the
    unpatched; or a sample of an operator that the patch replaces has, or a small program on which
    it acts.
    Why: Users pay for each piece: nothing is fused across a break, and each piece has guards and
    launches of its own.
    Fix: Read the reason and the line of the workload; avoid the construct that Dynamo cannot trace,
    or register the function as a custom operator.
PG423 stops compiling as sizes change
    Called with the same script of sizes, the patched workload reaches the recompile limit, or runs
    eagerly where the unpatched one runs compiled code.
    Why: Users run the function uncompiled from then on, and only a log line says so.
    Fix: Find why each size is compiled separately: a size that becomes a constant, a frame that is
    skipped.
""")
# The first figure of this table that grew decides the code, because a broken graph also compiles
# more often, and code that stops compiling has compiled before.
_WORSE = (
    ("PG423", ("shapes.eager.", "shapes.limit.")),
    ("PG422", ("shapes.breaks.",)),
    ("PG421", ("shapes.compiled.",)),
)
_REASONS = ("shapes.break.", "shapes.reason.")


@Check(
    axes=("torch", "device", "workload"),
    workloads="shapes",
    devices=lambda run: ["cpu"],
    unchanged="none",
)
def ask_shapes(context: CheckContext, at: Instance) -> Verdicts:
    return fact_verdicts(context, FAMILY, at.case, judge_shapes)


def judge_shapes(compared: Compared) -> Verdicts:
    """Return one verdict for each way of compiling that got worse, in place of one for each of its
    changed facts. All other verdicts are those of the comparison with the golden file.
    """
    before, after = compared.unpatched.facts, compared.patched.facts
    worse = _worse(before, after)
    summed = set()
    for verdict in judge_facts(FAMILY, compared):
        mode = _mode(verdict.fact)
        if verdict.kind not in (Kind.REGRESSED, Kind.CHANGED) or mode not in worse:
            is_saved = verdict.kind is Kind.CHANGED and _instead_of_eager(mode, before, after)
            yield replace(verdict, kind=Kind.FIRST) if is_saved else verdict
        elif mode not in summed:
            summed.add(mode)
            yield _summed(verdict.case, mode, worse[mode], before, after)


def _mode(fact: str) -> str:
    return fact.split(".")[2] if fact.count(".") > 1 else ""


def _worse(before: Facts, after: Facts) -> dict[str, str]:
    """Map each way of compiling that got worse to the code of the figure that grew."""
    grown: dict[str, str] = {}
    for code, prefixes in _WORSE:
        for fact in after:
            mode = _mode(fact)
            if code == "PG421" and _instead_of_eager(mode, before, after):
                continue
            if fact.startswith(prefixes) and growth(before.get(fact), after[fact]):
                grown.setdefault(mode, code)
    return grown


def _instead_of_eager(mode: str, before: Facts, after: Facts) -> bool:
    """True if each additional compile replaces a call that ran in eager mode, for example because
    the recompile limit is higher.
    """
    compiled, eager = (f"shapes.{name}.{mode}" for name in ("compiled", "eager"))
    more = increase(before.get(compiled), after.get(compiled))
    return 0 < more <= increase(after.get(eager), before.get(eager))


def _summed(case: Case, mode: str, code: str, before: Facts, after: Facts) -> Verdict:
    counts = [f"shapes.{name}.{mode}" for name in ("compiled", "breaks", "eager", "limit")]
    known = set(before.values())
    reasons = [
        str(after[fact])
        for fact in sorted(after)
        if fact.startswith(_REASONS) and _mode(fact) == mode
    ]
    actual = (_counts(counts, after), *(reason for reason in reasons if reason not in known))
    return verdict_of(FAMILY, code, Kind.REGRESSED, case, mode, _counts(counts, before), actual)


def _counts(names: list[str], facts: Facts) -> str:
    return ", ".join(
        f"{name.split('.')[1]} {format_value(facts[name])}" for name in names if name in facts
    )
