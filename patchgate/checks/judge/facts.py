"""Facts of a case against golden: one verdict a fact, PG3xx for kernels and PG4xx for graphs.

Decides which family a fact belongs to and how a difference is worded; the
kind comes from `patchgate.checks.compare`.
"""

from __future__ import annotations

from collections.abc import Iterator

from patchgate.checks.codes import verdict_of
from patchgate.checks.codes.facts import code_of
from patchgate.checks.compare import Recorded, Side, compare
from patchgate.model.facts import check_of, format_value, not_requested, value_in
from patchgate.model.records import Expectation, FactValue, Kind, Observation, Verdict

# Where reading the generated code explains the figure.
_SHOW_CODE = {Kind.REGRESSED, Kind.DRIFTED, Kind.INERT}
_FAMILIES = {"kernels": 30, "graph": 40, "shapes": 40, "options": 43}


def judge_facts(
    check: str,
    *,
    recorded: Expectation,
    recorded_unpatched: Expectation,
    unpatched: Observation,
    patched: Observation,
    next_step: str,
    release: str = "",
) -> Iterator[Verdict]:
    """Verdicts of one check ("kernels", "graph", "shapes" or "options") for one case, a fact each.

    `release` is whose record it is, where that is another torch than the case's. A case whose patched side failed,
    or the machine below either, gets a single verdict; of one that kernels and graph share, in the kernels check.
    """
    before, after = Side(failure=unpatched.failure), Side(failure=patched.failure)
    if patched.failure or compare(Recorded(), before, after) is Kind.INFRA:
        if check != "graph":
            kind = compare(Recorded(known_failure=recorded.known_failure), before, after)
            yield _failed(check, kind, unpatched, patched, next_step)
        return
    known = recorded.known_failure
    names = {*unpatched.facts, *patched.facts, *recorded.facts, *recorded_unpatched.facts}
    names -= not_requested(names, patched.facts)
    for fact in sorted(name for name in names if check_of(name) == check):
        held = Recorded(
            unpatched=value_in(recorded_unpatched.facts, fact),
            patched=value_in(recorded.facts, fact),
            known_failure=known,
        )
        old, new = value_in(unpatched.facts, fact), value_in(patched.facts, fact)
        kind = compare(held, Side(value=old, failure=unpatched.failure), Side(value=new))
        expected = _expected(kind, held, old)
        if release not in ("", patched.case.torch):
            expected += f" (by the record of {release})"
        yield _verdict(check, kind, patched, fact, expected, _shown(new), next_step)


def _shown(value: FactValue | None) -> str:
    return "absent" if value is None else format_value(value)


def _expected(kind: Kind, held: Recorded, before: FactValue | None) -> str:
    if kind is Kind.NEW:
        return f"a record (unpatched now: {_shown(before)})"
    if kind is Kind.DRIFTED:
        return f"{_shown(held.patched)} (unpatched recorded {_shown(held.unpatched)}, now {_shown(before)})"
    if held.patched != held.unpatched:
        return f"{_shown(held.patched)} (unpatched {_shown(held.unpatched)})"
    return _shown(held.patched)


def _failed(check: str, kind: Kind, unpatched: Observation, patched: Observation, next_step: str) -> Verdict:
    failure = patched.failure or unpatched.failure
    assert failure is not None
    side = "patched" if patched.failure else "unpatched"
    verdict = _verdict(
        check,
        kind,
        patched,
        "compiles",
        "compiles",
        f"{side}: {failure.signature} [{failure.stage}]",
        next_step,
    )
    return Verdict(**{**vars(verdict), "where": failure.where})


def _verdict(
    check: str, kind: Kind, patched: Observation, fact: str, expected: str, actual: str, next_step: str
) -> Verdict:
    case = patched.case
    code, subject = code_of(_FAMILIES[check], kind), f"{case.workload}.{case.device} {fact}"
    where = patched.artifacts.get("code") if kind in _SHOW_CODE else None
    step = next_step if kind is Kind.REGRESSED else None
    return verdict_of(check, code, kind, case.torch, subject, expected, actual, where, next=step)
