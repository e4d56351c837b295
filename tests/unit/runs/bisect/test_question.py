"""Questions: how they are written, and which answer a measurement gives. No torch is run."""

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Unmeasured, Verdict
from patchgate.model.results import Answer, Reading
from patchgate.runs.bisect.question import (
    parse_code,
    parse_fact,
    parse_has,
    parse_metric,
    read_facts,
    read_metrics,
    read_verdicts,
)

GOOD, BAD, UNKNOWN = Answer
CASCADE = parse_fact("residual_stack.h200.loads.max > 4", ["residual_stack"], ["h200"])


def verdict(code, kind):
    case = Case(torch="2.11.0", device="cpu", workload="stack")
    return Verdict(
        code=code, kind=kind, check="parity", case=case, item=case.name, actual="1 % differ"
    )


def test_a_question_is_read_into_its_parts():
    assert (CASCADE.workload, CASCADE.device, CASCADE.name, CASCADE.predicate) == (
        "residual_stack",
        "h200",
        "loads.max",
        "> 4",
    )
    metric = parse_metric("stack.differing>0.5", ["stack"])
    assert (metric.workload, metric.device, metric.name, metric.predicate) == (
        "stack",
        "cpu",
        "differing",
        ">0.5",
    )


@pytest.mark.parametrize(
    "parse",
    [
        lambda: parse_fact("stack.h200.loads.max", ["stack"], ["h200"]),
        lambda: parse_fact("stak.h200.loads.max > 4", ["stack"], ["h200"]),
        lambda: parse_fact("stack.h20.loads.max > 4", ["stack"], ["h200"]),
        lambda: parse_fact("stack.h200 > 4", ["stack"], ["h200"]),
        lambda: parse_fact("stack.h200.loads.max > many", ["stack"], ["h200"]),
        lambda: parse_metric("differing > 0", ["stack"]),
        lambda: parse_code("PG999"),
        lambda: parse_has("realize"),
        lambda: parse_has("torch.a.f("),
    ],
)
def test_what_is_no_question_is_refused(parse):
    with pytest.raises(UsageError):
        parse()


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        ({"loads.max": 6}, BAD),
        ({"loads.max": 4}, GOOD),
        ({}, UNKNOWN),
        ({"loads.max": Unmeasured(reason="no counter")}, UNKNOWN),
    ],
)
def test_facts_answer_a_question_and_a_missing_one_does_not(facts, answer):
    assert read_facts(CASCADE, facts).answer is answer


def test_a_fact_that_is_not_there_is_reported_with_the_one_that_is_like_it():
    question = parse_fact("stack.h200.loads_max > 4", ["stack"], ["h200"])
    assert (
        read_facts(question, {"loads.max": 6, "stores.max": 2}).shown
        == "no loads_max; did you mean `loads.max`?"
    )
    assert read_facts(question, {"kernels": 6}).shown == "no loads_max"


def test_a_figure_answers_a_question():
    question = parse_metric("stack.differing > 0.5", ["stack"])
    assert read_metrics(question, {"differing": 0.6}) == Reading(
        answer=BAD, shown="differing = 0.6"
    )
    assert read_metrics(question, {"largest": 1.0}).answer is UNKNOWN


@pytest.mark.parametrize(
    ("verdicts", "answer"),
    [
        ([verdict("PG501", Kind.REGRESSED), verdict("PG905", Kind.INFRA)], BAD),
        ([verdict("PG502", Kind.REGRESSED), verdict("PG503", Kind.PASS)], GOOD),
        ([verdict("PG503", Kind.PASS), verdict("PG905", Kind.INFRA)], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_verdicts_answer_a_question_only_where_all_was_judged(verdicts, answer):
    assert read_verdicts(parse_code("pg501"), verdicts).answer is answer
