"""Judge the facts of a compile against the golden files, for the checks of kernels, graphs, shapes
and options.

Each check has a range of codes whose last digit is the kind: PG301 and PG401 are both REGRESSED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from patchgate.checks.framework.compare import Recorded, Side, compare
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Verdicts, verdict_of
from patchgate.checks.machine import judge_undeviced
from patchgate.model.facts import (
    COMPILES,
    COSTS,
    check_of,
    cost_of,
    format_value,
    growth,
    increase,
    not_requested,
    value_in,
)
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import (
    Budget,
    Case,
    Code,
    Command,
    Expectation,
    FactValue,
    Observation,
    Unmeasured,
    Verdict,
    read_codes,
    record,
)
from patchgate.model.text import counted

_ACCEPT = Command(name="accept", arguments=("--reason", "'...'"))
# Verdicts of these kinds show the path of the generated code, which explains the figure.
_SHOW_CODE = {Kind.REGRESSED, Kind.CHANGED, Kind.FIRST, Kind.DRIFTED, Kind.INERT}
# A tolerance for floating point: a growth of exactly the limit must be within the limit.
_ROUNDING = 1e-9
# The largest number of changed facts that the note of a first judgement names.
_SHOWN = 4
# Kinds without a code of their own -> the kind whose code they have.
_SAME_CODE = {Kind.CHANGED: Kind.REGRESSED, Kind.FIRST: Kind.NEW, Kind.ASSUMED: Kind.UNMEASURED}
_RANGES = {"kernels": 30, "graph": 40, "shapes": 40, "options": 43}
Judge = Callable[["Compared"], Verdicts]


@record
class Compared:
    """Both sides of one case, and its record in golden."""

    unpatched: Observation
    patched: Observation
    recorded: Expectation  #: the record of the patched case
    recorded_unpatched: Expectation
    release: str  #: the release of the record, which for a nightly build is not the case's torch
    accepted: bool = True  #: True if the patch's facts of this workload were accepted on `release`
    budgets: Mapping[str, Budget] = field(default_factory=dict)  #: of costs, by name
    in_a_scope: bool = False  #: True if the patch acts only in a block that its users enter
    advice: str = ""  #: for a fact that has changed
    commands: tuple[Command, ...] = ()  #: for a fact that has changed; the last repeats the run


def fact_verdicts(context: CheckContext, check: str, case: Case, judge: Judge) -> Verdicts:
    """The verdicts of one check on the facts of one case."""
    needed = context.workload(case.workload).needs_device
    if needed and context.run.profile(case.device)["kind"] != "real":
        yield judge_undeviced(check, case, f"needs one: {needed}")
        return
    run = context.run
    unpatched, patched = context.observations(case)
    release, recorded, recorded_unpatched = context.records(unpatched)
    yield from judge(
        Compared(
            unpatched=unpatched,
            patched=patched,
            recorded=recorded,
            recorded_unpatched=recorded_unpatched,
            release=release,
            accepted=context.is_accepted(unpatched, release),
            budgets=context.patch.claims.budgets,
            in_a_scope=bool(context.patch.claims.scope),
            advice=f"compare the generated code below {display_path(run.folder)}/code",
            commands=(
                replace(run.accept, when="if the change is meant"),
                replace(run.again, when="if not, correct the patch"),
            ),
        )
    )


def judge_facts(check: str, compared: Compared) -> Verdicts:
    """One verdict for each recorded fact of `check`, and for each cost that grows beyond its limit.

    All other facts that the patch changes share one note. All unchanged facts without a record
    share another note. If the facts cannot be compared, the case gets a single verdict, which the
    graph check leaves to the kernels check.
    """
    whole = _whole_case(check, compared)
    if whole:
        if check != "graph":  # for the graph check, the kernels check gives this verdict
            yield whole
        return
    recorded = {*compared.recorded.facts, *compared.recorded_unpatched.facts}
    names = {*compared.unpatched.facts, *compared.patched.facts, *recorded}
    names -= not_requested(names, compared.patched.facts)
    judged = {
        fact: _compared_fact(compared, fact) for fact in sorted(names) if check_of(fact) == check
    }
    for fact, (kind, held) in judged.items():
        if kind not in (Kind.NEW, Kind.FIRST):
            yield _fact_verdict(check, kind, compared, fact, held)
    first = [fact for fact, (kind, _) in judged.items() if kind is Kind.FIRST]
    if first:
        yield _first(check, compared, first)
    new = sum(kind is Kind.NEW for kind, _ in judged.values())
    if new:
        expected = f"a record for torch {compared.release}"
        actual = f"{counted(new, 'fact')}, the same with and without the patch: accept to record"
        yield _verdict(check, Kind.NEW, compared, "", expected, actual)


def _whole_case(check: str, compared: Compared) -> Verdict | None:
    """The only verdict on a case whose facts cannot be compared; None if they can."""
    unpatched, patched, recorded = compared.unpatched, compared.patched, compared.recorded
    compiles = [side.facts.get(COMPILES) for side in (unpatched, patched)]
    needed = [value.reason for value in compiles if isinstance(value, Unmeasured)]
    if needed:
        return replace(judge_undeviced(check, patched.case, needed[0]), kind=Kind.ASSUMED)
    before, after = Side(failure=unpatched.failure), Side(failure=patched.failure)
    once = recorded.recorded or compared.recorded_unpatched.recorded
    if patched.failure or compare(Recorded(), before, after) is Kind.INFRA:
        held = Recorded(unpatched=1 if once else None, known_failure=recorded.known_failure)
        return _failed(check, compare(held, before, after), compared)
    if unpatched.failure and not once:
        expected = f"fails as it does without the patch: {unpatched.failure.text}"
        return _verdict(check, Kind.FIRST, compared, "compiles", expected, "compiles")
    return None


def _compared_fact(compared: Compared, fact: str) -> tuple[Kind, Recorded]:
    held = Recorded(
        unpatched=value_in(compared.recorded_unpatched.facts, fact),
        patched=value_in(compared.recorded.facts, fact),
        known_failure=compared.recorded.known_failure,
        accepted=compared.accepted,
    )
    (old, new), cost, budgets = _values(compared, fact), cost_of(fact), compared.budgets
    # Only users who enter the patch's scope pay for it, so its costs are notes until accepted.
    # Options that a compile leaves changed are judged as usual: they stay changed after the scope.
    is_noted = compared.in_a_scope and cost not in budgets and cost != "options_left"
    worse = (
        bool(cost)
        and not is_noted
        and increase(old, new) > (0 if cost in budgets else COSTS[cost].slack)
        and growth(old, new) > _limit(cost, budgets) + _ROUNDING
    )
    before = Side(value=old, failure=compared.unpatched.failure)
    return compare(held, before, Side(value=new), worse=worse), held


def _values(compared: Compared, fact: str) -> tuple[FactValue | None, FactValue | None]:
    return value_in(compared.unpatched.facts, fact), value_in(compared.patched.facts, fact)


def _fact_verdict(check: str, kind: Kind, compared: Compared, fact: str, held: Recorded) -> Verdict:
    old, new = _values(compared, fact)
    expected = _expected(kind, held, old, fact, compared.budgets)
    if compared.release != compared.patched.case.torch:
        expected += f" (by the record of {compared.release})"
    texts = [None if value is None else format_value(value) for value in (old, new, held.patched)]
    made = _verdict(check, kind, compared, fact, expected, format_value(new))
    return replace(made, before=texts[0], after=texts[1], recorded=texts[2])


def _limit(cost: str, budgets: Mapping[str, Budget]) -> float:
    """The largest allowed growth of a cost, as a share: its budget's limit, or the default."""
    return budgets[cost].high if cost in budgets else COSTS[cost].limit


def _first(check: str, compared: Compared, names: Sequence[str]) -> Verdict:
    """One note on all facts that the patch changes; costs come first."""
    order = sorted(names, key=lambda name: (not cost_of(name), name))
    before, after = compared.unpatched.facts, compared.patched.facts
    changes = [
        f"{name} {format_value(value_in(before, name))} -> {format_value(value_in(after, name))}"
        for name in order[:_SHOWN]
    ]
    if len(order) > _SHOWN:
        changes.append(f"and {len(order) - _SHOWN} more facts")
    expected = "nothing of this patch is accepted here yet, and no cost is worse beyond its limit"
    return _verdict(check, Kind.FIRST, compared, "changes", expected, tuple(changes))


def _expected(
    kind: Kind, held: Recorded, before: FactValue | None, fact: str, budgets: Mapping[str, Budget]
) -> str:
    if kind is Kind.CHANGED:
        cost = cost_of(fact)
        limit = f"at most {_limit(cost, budgets):.1%} more {COSTS[cost].noun}"
        than = f"than without the patch, {format_value(before)}"
        return f"{limit} {than} (nothing of this patch is accepted here yet)"
    patched, unpatched = format_value(held.patched), format_value(held.unpatched)
    if kind is Kind.DRIFTED:
        return f"{patched} (unpatched recorded {unpatched}, now {format_value(before)})"
    return f"{patched} (unpatched {unpatched})" if held.patched != held.unpatched else patched


def _failed(check: str, kind: Kind, compared: Compared) -> Verdict:
    failure = compared.patched.failure or compared.unpatched.failure
    assert failure is not None
    side = "patched" if compared.patched.failure else "unpatched"
    made = _verdict(check, kind, compared, "compiles", "compiles", f"{side}: {failure.text}")
    place = display_path(failure.where) if failure.where else None
    if made.commands:
        advice = "correct the patch at that line, or the values that it passes to torch"
        again = replace(compared.commands[-1], when="then")
        made = replace(made, advice=advice, commands=(again,))
    return replace(made, where=place)


def _verdict(
    check: str,
    kind: Kind,
    compared: Compared,
    fact: str,
    expected: str,
    actual: str | tuple[str, ...],
) -> Verdict:
    patched = compared.patched
    where = patched.artifacts.get("code") if kind in _SHOW_CODE else None
    made = verdict_of(
        check, code_of(check, kind), kind, patched.case, fact, expected, actual, where
    )
    if kind in (Kind.REGRESSED, Kind.CHANGED):
        return replace(made, advice=compared.advice, commands=compared.commands)
    return made


def code_of(check: str, kind: Kind) -> str:
    """The stable code of a kind in a check of facts: PG301 for `kernels` and REGRESSED."""
    return f"PG{_RANGES[check]}{_KINDS.index(_SAME_CODE.get(kind, kind))}"


def fact_codes(check: str, noun: str) -> tuple[Code, ...]:
    """Return one code for each kind of result of a comparison; `noun` names the facts."""
    limits = ", ".join(f"{cost.noun} +{cost.limit:.0%}" for cost in COSTS.values())
    codes = read_codes(_TEXTS.format(digits=_RANGES[check], noun=noun, costs=limits))
    return tuple(
        replace(code, commands=(_ACCEPT,) if kind in _ACCEPTED else ())
        for kind, code in zip(_KINDS, codes, strict=True)
    )


# The place of a kind in this table is the last digit of its code.
_KINDS = (
    Kind.PASS,
    Kind.REGRESSED,
    Kind.DRIFTED,
    Kind.NEW,
    Kind.ABSORBED,
    Kind.INERT,
    Kind.STALE,
    Kind.KNOWN,
    Kind.UNMEASURED,
    Kind.INFRA,
)
# Kinds of verdicts whose facts the command `accept` records.
_ACCEPTED = {Kind.REGRESSED, Kind.DRIFTED, Kind.NEW, Kind.STALE}
_TEXTS = """
PG{digits}0 {noun} facts as recorded
    With the patch, the {noun} facts equal the golden file.
    Why: Nothing changed.
    Fix: Nothing to do.
PG{digits}1 {noun} facts changed
    With the patch, one of the {noun} facts differs from what was accepted. Or nothing of the patch
    is accepted yet, and a cost is worse beyond its limit: {costs}. Or only the patched side fails
    to compile.
    Why: Users of such models pay the cost in every step, or get code that no reviewer has accepted.
    Fix: Read the facts. If you did not intend the change, correct the patch; if you did, accept it.
    A project sets its
    own limits: `[tool.patchgate.budgets] kernels = "0 % .. 10 %"`.
PG{digits}2 torch itself changed
    Without the patch, one of the {noun} facts no longer equals the golden file; or a case that it
    lists fails on both sides.
    Why: Users of this release get code that nobody has compared: torch itself no longer matches the
    record.
    Fix: Find the release that changed it (`patchgate bisect`), then record the new value.
PG{digits}3 nothing accepted yet
    The golden file has no {noun} facts of this case for this torch release; or it has those of
    torch, and nothing of this patch. No cost is worse beyond its limit. It is a note, which lists
    what the patch changes.
    Why: Once the facts are accepted, each later change of them is red.
    Fix: Read what the patch changes, and accept it.
PG{digits}4 torch does the same without the patch
    The golden file records a difference, but torch without the patch now gives the patched value.
    Why: Users of this release carry a patch that they do not need any more.
    Fix: Narrow `applies_to`, or drop the patch.
PG{digits}5 a recorded change is gone
    The golden file records a difference, but patched and unpatched are the same.
    Why: Users believe that they have this change: the patch no longer reaches the code that it is
    meant to change.
    Fix: Check the gate and whether the target is still called.
PG{digits}6 known failure no longer fails
    The golden file lists this case as failing, but it runs.
    Why: The next real failure of the project would be hidden by a stale entry.
    Fix: Remove the entry.
PG{digits}7 fails as recorded
    The golden file lists this case as failing, and it fails.
    Why: The failure is known.
    Fix: Nothing to do.
PG{digits}8 {noun} fact could not be taken
    This {noun} fact could not be measured; or the workload fails without the patch too, and no
    record says that it ran.
    Why: A value that was not measured is not zero, and not equal to another such value.
    Fix: Read the reason; run on a machine that can measure it.
PG{digits}9 the machine failed, not the patch
    One side of this comparison failed because of the machine, also when it was repeated.
    Why: Such a failure does not count against the patch.
    Fix: Run again. If it persists, check disk, memory and limits.
"""
