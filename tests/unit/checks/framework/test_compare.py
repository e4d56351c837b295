"""The comparison as a whole: every combination of states against the table, written down again."""

from itertools import product

import pytest

from patchgate.checks.framework.compare import Recorded, Side, compare
from patchgate.model.policy import Kind
from patchgate.model.records import Cause, Failure, Unmeasured

OLD, NEW, OTHER, MISSING = 4, 6, 9, "missing"
KNOWN = "the known signature"
NOT_THE_PATCHS = {Cause.MACHINE, Cause.MISSING}
OURS = {Cause.HUNG, Cause.OUT_OF_MEMORY, Cause.CRASHED, *NOT_THE_PATCHS}

# Golden may hold these: (unpatched value, patched value, known failure).
RECORDS = {
    "none": (None, None, None),
    "equal": (OLD, OLD, None),
    "different": (OLD, NEW, None),
    "known failure": (OLD, OLD, KNOWN),
    "known failure and nothing else": (None, None, KNOWN),
    "only the patched side": (None, NEW, None),
    "only the unpatched side": (OLD, None, None),
}
# A side may be one of these now: a value, MISSING, or (cause, signature).
RAN = [OLD, NEW, OTHER, None, MISSING]
FAILED = [(cause, signature) for cause in Cause for signature in (KNOWN, "another signature")]
TABLE = list(product(RECORDS, RAN + FAILED, RAN + FAILED))


def oracle(record, unpatched, patched, accepted=True, worse=False):
    """The table, row by row; the first that fits wins."""
    held_unpatched, held_patched, known = RECORDS[record]
    unpatched_failed, patched_failed = isinstance(unpatched, tuple), isinstance(patched, tuple)
    rows = [
        (unpatched_failed and unpatched[0] in OURS, Kind.INFRA),
        (patched_failed and patched[0] in NOT_THE_PATCHS, Kind.INFRA),
        (patched_failed and known is not None and patched[1] == known, Kind.KNOWN),
        (patched_failed and unpatched_failed, Kind.ASSUMED if record == "none" else Kind.DRIFTED),
        (patched_failed, Kind.REGRESSED),
        (known is not None, Kind.STALE),
        (MISSING in (unpatched, patched), Kind.UNMEASURED),
        (record == "none" and not unpatched_failed and patched == unpatched, Kind.NEW),
        (
            (record == "none" or (not accepted and (unpatched_failed or patched != unpatched)))
            and worse,
            Kind.CHANGED,
        ),
        (
            record == "none" or (not accepted and (unpatched_failed or patched != unpatched)),
            Kind.FIRST,
        ),
        (
            patched == held_patched and held_patched != held_unpatched and patched == unpatched,
            Kind.ABSORBED,
        ),
        (
            patched == held_patched == held_unpatched
            and not (unpatched_failed or patched == unpatched),
            Kind.DRIFTED,
        ),
        (patched == held_patched, Kind.PASS),
        ((None if unpatched_failed else unpatched) != held_unpatched, Kind.DRIFTED),
        (patched == unpatched, Kind.INERT),
        (True, Kind.REGRESSED),
    ]
    return next(kind for fits, kind in rows if fits)


def side(state):
    if isinstance(state, tuple):
        cause, signature = state
        return Side(failure=Failure(cause=cause, stage="compile", signature=signature))
    return Side(value=Unmeasured(reason="no counter") if state == MISSING else state)


def recorded(record, accepted=True):
    unpatched, patched, known = RECORDS[record]
    return Recorded(unpatched=unpatched, patched=patched, known_failure=known, accepted=accepted)


@pytest.mark.parametrize("worse", [False, True])
@pytest.mark.parametrize("accepted", [False, True])
@pytest.mark.parametrize("record", RECORDS)
def test_every_combination_gives_the_kind_of_the_first_row_that_fits(record, accepted, worse):
    told = {
        (unpatched, patched): compare(
            recorded(record, accepted), side(unpatched), side(patched), worse=worse
        )
        for held, unpatched, patched in TABLE
        if held == record
    }
    assert told == {
        (u, p): oracle(held, u, p, accepted, worse) for held, u, p in TABLE if held == record
    }


def test_the_table_reaches_every_kind_of_the_comparison():
    reached = {oracle(*row, worse=worse) for row in TABLE for worse in (False, True)}
    elsewhere = {
        Kind.WARNING,
        Kind.NOTE,
        Kind.OVER,
        Kind.UNDER,
        Kind.AMBIGUOUS,
        Kind.STOPPED,
    }
    assert reached == set(Kind) - elsewhere


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause not in NOT_THE_PATCHS])
def test_a_failure_of_the_patched_side_alone_is_the_patchs_own(cause):
    failed = side((cause, "boom"))
    assert compare(recorded("equal"), Side(value=OLD), failed) is Kind.REGRESSED


@pytest.mark.parametrize("record", RECORDS)
def test_two_missing_facts_are_never_a_pass(record):
    missing = Side(value=Unmeasured(reason="no counter"))
    kind = compare(recorded(record), missing, missing)
    assert kind is (Kind.STALE if "known" in record else Kind.UNMEASURED)


def test_an_unpatched_failure_does_not_hide_a_changed_fact():
    failed = side((Cause.RAISED, "torch broke"))
    kinds = [
        compare(recorded("only the patched side"), failed, Side(value=value))
        for value in (NEW, OTHER)
    ]
    assert kinds == [Kind.PASS, Kind.REGRESSED]
