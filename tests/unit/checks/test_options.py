"""Options and modes: what moved is told one by one, what held or is new in one line."""

from __future__ import annotations

from patchgate.checks.framework.golden_verdicts import Compared
from patchgate.checks.options import judge_options
from patchgate.model.records import Case, Cause, Expectation, Facts, Failure, Observation, Verdict

FACTS = {
    "options.listed.cpp.threads": 1,
    "options.listed.debug": 1,
    "options.mode.max-autotune": "1 options",
    "options.mode.max-autotune.max_autotune": "True",
}


def observation(facts: Facts, patch: str | None = None) -> Observation:
    return Observation(
        case=Case(torch="2.11.0", device="cpu", workload="options", patch=patch), facts=facts
    )


def verdicts(held: Expectation, unpatched: Observation, patched: Observation) -> list[Verdict]:
    both = Compared(
        unpatched=unpatched,
        patched=patched,
        recorded=held,
        recorded_unpatched=held,
        release="2.11.0",
    )
    return list(judge_options(both))


def judge(recorded: Facts, unpatched: Facts, patched: Facts) -> list[tuple[str, str, str, str]]:
    judged = verdicts(
        Expectation(facts=recorded), observation(unpatched), observation(patched, "mine")
    )
    return [(verdict.code, verdict.subject, verdict.expected, verdict.actual) for verdict in judged]


ALL = ("PG430", "options.cpu", "as recorded", "4 options and modes")


def test_what_holds_is_one_line():
    assert judge(FACTS, FACTS, FACTS) == [ALL]
    (verdict,) = verdicts(Expectation(facts=FACTS), observation(FACTS), observation(FACTS, "mine"))
    assert (verdict.before, verdict.after, verdict.recorded) == (None, None, None)


def test_what_a_release_without_a_record_has_is_one_line():
    (told,) = judge({}, FACTS, FACTS)
    assert told[:3] == ("PG433", "options.cpu", "a record for torch 2.11.0")
    assert told[3].startswith("4 facts, the same")


def test_an_option_that_the_patch_adds_and_one_that_it_changes_are_reported():
    patched = FACTS | {"options.listed.mine": 1, "options.mode.max-autotune.max_autotune": "False"}
    added, changed, rest = judge(FACTS, FACTS, patched)
    assert added == ("PG431", "options.cpu options.listed.mine", "0", "1")
    assert changed == (
        "PG431",
        "options.cpu options.mode.max-autotune.max_autotune",
        '"True"',
        '"False"',
    )
    assert (rest[0], rest[3]) == ("PG430", "3 options and modes")


def test_what_torch_dropped_by_itself_is_drift():
    now = {name: value for name, value in FACTS.items() if name != "options.listed.debug"}
    first, _ = judge(FACTS, now, now)
    assert first[:2] == ("PG432", "options.cpu options.listed.debug")


def test_what_cannot_be_listed_is_one_verdict():
    for cause, known, code in (
        (Cause.RAISED, None, "PG431"),
        (Cause.RAISED, "boom", "PG437"),
        (Cause.MACHINE, None, "PG439"),
    ):
        failure = Failure(cause=cause, stage="options", signature="boom")
        failed = Observation(
            case=Case(torch="2.11.0", device="cpu", workload="options", patch="m"), failure=failure
        )
        held = Expectation(facts=FACTS, known_failure=known)
        assert [verdict.code for verdict in verdicts(held, observation(FACTS), failed)] == [code]
