"""Questions, what answers them, and how an answer is told: no torch is run."""

import pytest
from click.testing import CliRunner
from expecttest import assert_expected_inline

from patchgate.cli.bisect import ask, bisect
from patchgate.model.errors import UsageError
from patchgate.model.records import Kind, Unmeasured, Verdict
from patchgate.runs.bisect.question import (
    Reading,
    parse_code,
    parse_fact,
    parse_has,
    parse_metric,
    read_facts,
    read_figures,
    read_verdicts,
)
from patchgate.runs.bisect.search import Answer
from patchgate.runs.bisect.told import Search, recorded

GOOD, BAD, UNKNOWN = Answer
CASCADE = parse_fact("residual_stack.h200.loads.max > 4", ["residual_stack"], ["h200"])
GRAPH_REUSE = "torch._inductor.ir.StorageBox.should_realize_on_reuse(graph_reuse)"


def verdict(code, kind):
    return Verdict(code=code, kind=kind, check="parity", torch="2.11.0", subject="stack.cpu", actual="1 % differ")


def reading(answer):
    return Reading(answer=answer, shown=answer.value, facts={"loads.max": 6 if answer is BAD else 2})


def test_a_question_is_read_into_its_parts():
    assert (CASCADE.workload, CASCADE.device, CASCADE.name, CASCADE.predicate) == (
        "residual_stack",
        "h200",
        "loads.max",
        "> 4",
    )
    metric = parse_metric("stack.differing>0.5", ["stack"])
    assert (metric.workload, metric.device, metric.name, metric.predicate) == ("stack", "cpu", "differing", ">0.5")


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


def test_a_fact_that_is_not_there_is_told_with_the_one_that_is_like_it():
    question = parse_fact("stack.h200.loads_max > 4", ["stack"], ["h200"])
    assert read_facts(question, {"loads.max": 6, "stores.max": 2}).shown == "no loads_max; did you mean loads.max?"
    assert read_facts(question, {"kernels": 6}).shown == "no loads_max"


def test_a_figure_answers_a_question():
    question = parse_metric("stack.differing > 0.5", ["stack"])
    assert read_figures(question, {"differing": 0.6}) == Reading(answer=BAD, shown="differing = 0.6")
    assert read_figures(question, {"largest": 1.0}).answer is UNKNOWN


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


@pytest.mark.parametrize(("answers", "holds"), [([BAD, BAD, GOOD, GOOD], False), ([GOOD, GOOD, BAD, BAD], True)])
def test_a_search_finds_the_turn_in_either_direction(answers, holds):
    told = []
    search = Search(lambda item: reading(answers[int(item)]), told.append)
    outcome = search.turn(["0", "1", "2", "3"], {})
    assert (outcome.last, outcome.first, outcome.holds, outcome.asked) == ("1", "2", holds, len(told))
    assert outcome.changed_facts == (["loads.max: 2 -> 6"] if holds else ["loads.max: 6 -> 2"])


def test_what_is_known_is_not_asked_but_both_sides_of_the_turn_are():
    asked = []

    def read(item):
        asked.append(item)
        return reading(BAD if int(item) < 13 else GOOD)

    items = [str(n) for n in range(20)]
    known = {str(n): reading(BAD if n < 13 else GOOD) for n in (0, 12, 14, 19)}
    outcome = Search(read, lambda line: None).turn(items, known)
    assert (outcome.first, sorted(asked)) == ("13", ["12", "13", "14"])


def test_a_record_that_does_not_hold_here_is_said():
    known = {"0": reading(BAD), "1": reading(BAD), "2": reading(GOOD)}
    with pytest.raises(UsageError, match="what is recorded does not hold here"):
        Search(lambda item: reading(GOOD), lambda line: None).turn(["0", "1", "2"], known)


@pytest.mark.parametrize("recorded", [[], ["0"], ["0", "1", "2"]])
@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (GOOD, "it holds at neither end, so there is no turn"),
        (BAD, "it holds at both ends, so there is no turn"),
        (UNKNOWN, "an end cannot be told"),
    ],
)
def test_a_search_without_two_ends_is_refused(answer, what, recorded):
    known = {item: reading(answer) for item in recorded if answer is not UNKNOWN}
    with pytest.raises(UsageError, match=what):
        Search(lambda item: reading(answer), lambda line: None).turn(["0", "1", "2"], known)


def test_two_of_five_that_do_it_together_are_found():
    def read(subset):
        return reading(GOOD if {"b", "d"} <= set(subset) else BAD)

    told = []
    assert Search(reading, told.append).culprits(list("abcde"), read).items == ("b", "d")
    assert told[0] == "  none of them  holds  bad"


def test_parts_that_change_nothing_are_refused():
    with pytest.raises(UsageError, match="nothing to search"):
        Search(reading, lambda line: None).culprits(["a"], lambda subset: reading(GOOD))


def test_golden_answers_for_the_releases_that_it_was_recorded_for():
    known = recorded(CASCADE, None, ["2.13.0", "2.14.1", "9.9.0"])
    assert {torch: found.answer for torch, found in known.items()} == {"2.13.0": BAD, "2.14.1": GOOD}
    assert recorded(CASCADE, "no-such-patch", ["2.13.0"]) == {}


def test_the_first_release_with_a_parameter_is_found_in_the_index():
    told = CliRunner().invoke(bisect, ["--has", GRAPH_REUSE, "--torch", "2.10.0..2.15.0"])
    first = f"first release in which `{GRAPH_REUSE}` holds: 2.13.0"
    assert [line for line in told.output.splitlines() if line.startswith("first")] == [first]
    assert "  last before: 2.12.1  should_realize_on_reuse(self, users)\n" in told.output
    assert f"  patchgate ask --has '{GRAPH_REUSE}' --torch 2.12.1\n" in told.output


@pytest.mark.parametrize(("torch", "code"), [("2.12.1", 0), ("2.13.0", 1), ("9.9.9", 125)])
def test_one_question_ends_as_git_bisect_wants_it(torch, code):
    assert CliRunner().invoke(ask, ["--has", GRAPH_REUSE, "--torch", torch]).exit_code == code


@pytest.mark.parametrize("options", [[], ["--fact", "nothing > 4"], ["--has", "torch.a.f"], ["--symptom"]])
def test_a_bad_question_ends_git_bisect_instead_of_telling_it_bad(options):
    assert CliRunner().invoke(ask, options).exit_code == 128


@pytest.mark.parametrize(
    "options",
    [
        ["--has", "torch.a.f"],
        ["--has", "torch.a.f", "--torch", "2.10.0..2.15.0", "--targets"],
        ["--has", "torch.a.f", "--torch", "2.10.0..2.15.0", "--votes", "1/2"],
        ["--metric", "residual_stack.differing > 0", "--torch", "2.10.0..2.15.0"],
        ["--code", "PG501", "--torch", "2.10.0..2.15.0"],
    ],
)
def test_a_search_that_cannot_be_is_refused(options):
    result = CliRunner().invoke(bisect, [*options, "--folder", "unused"])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize(
    ("options", "got"), [([], "none"), (["--code", "PG501", "--has", "a.b"], "--code 'PG501' --has 'a.b'")]
)
def test_other_than_one_question_is_refused_with_what_was_asked(options, got):
    refused = CliRunner().invoke(bisect, options).exception
    assert isinstance(refused, UsageError)
    assert (refused.what, refused.got) == ("one question is wanted", got)


def test_both_ends_alike_are_shown():
    with pytest.raises(UsageError) as refused:
        Search(lambda item: reading(GOOD), lambda line: None).turn(["2.10.0", "2.11.0"], {})
    assert_expected_inline(
        str(refused.value),
        """\
bisect: it holds at neither end, so there is no turn to find
  got:  2.10.0: good, 2.11.0: good
  next: widen the range, or ask another question""",
    )
