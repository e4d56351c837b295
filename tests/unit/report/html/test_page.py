"""The page's view model: what a cell can be drilled down to, each value once, one address a cell."""

import pytest

from patchgate.checks.codes import CODES
from patchgate.model.records import (
    Case,
    Cause,
    Claims,
    Expectation,
    Failure,
    Kind,
    Observation,
    Patch,
    Symptom,
    Verdict,
)
from patchgate.report.html.once import Once
from patchgate.report.html.page import Page, split_command
from patchgate.runs.evidence import Compared, Judged

SYMPTOM = Symptom(workload="stack", device="h200", fact="loads.max", predicate="> 4")


def patch(name="mine"):
    return Patch(id=name, path="p.py", source="", claims=Claims(title="a title", symptom=SYMPTOM))


def compared(torch="2.9.0", before=6, after=4, golden=4, failure=None, code=None):
    case = Case(torch=torch, device="h200", workload="stack", patch="mine")
    bare = Case(torch=torch, device="h200", workload="stack")
    return Compared(
        case=case,
        golden=Expectation(facts={"loads.max": golden}),
        golden_unpatched=Expectation(facts={"loads.max": 6}),
        unpatched=Observation(case=bare, facts={"loads.max": before}),
        patched=Observation(
            case=case,
            failure=failure,
            facts={} if failure else {"loads.max": after},
            environment={"triton": "3.6.0"},
        ),
        code=code,
        on="simulated (h200)",
    )


def fact(kind=Kind.PASS, code="PG300", torch="2.9.0", subject="stack.h200 loads.max", **rest):
    return Verdict(code=code, kind=kind, check="kernels", torch=torch, subject=subject, **rest)


def page(*judged, **given):
    made = Page(**given)
    for one in judged:
        made.add(one)
    return made


def one(verdicts, *cases, torches=("2.9.0",), name="mine"):
    return Judged(patch=patch(name), torches=torches, verdicts=tuple(verdicts), compared=tuple(cases))


def read(data, cell):
    """A cell of the data with its verdicts and facts put together again, as the script does it."""
    colour, count, codes, verdicts, cases = cell
    texts = data["texts"]
    told = [[texts[at] for at in data["verdicts"][v][1:]] for v in verdicts]
    facts = [
        [texts[at] for at in data["rows"][row]] for case in cases for row in data["tables"][data["cases"][case][2]]
    ]
    return (colour, count, tuple(codes)), told, facts


def cells(data, number=0):
    return {(check, item): found for check, item, found in data["patches"][number][3]}


def test_a_cell_is_drilled_down_to_golden_unpatched_and_patched():
    told = fact(Kind.REGRESSED, "PG301", expected="4", actual="5", why="w", next="mend it, then: nox -s gate -- p")
    data = page(one([told], compared(after=5))).data
    (cell,) = cells(data)["kernels", "stack.h200"]
    said, verdicts, facts = read(data, cell)
    assert said == (1, 1, ("PG301",))
    assert verdicts == [
        ["PG301", "regressed", "stack.h200 loads.max", "4", "5", "", "w", "mend it, then:", "nox -s gate -- p"]
    ]
    assert facts == [["loads.max", "4", "6", "6", "5", "PG301 regressed"]]


def test_green_facts_are_told_by_their_table_alone_and_other_greens_by_their_verdict():
    symptom = fact(subject="symptom stack.h200 loads.max > 4", code="PG211", actual="cured")
    symptom = Verdict(**{**vars(symptom), "check": "gate"})
    data = page(one([fact(), symptom], compared())).data
    (kernels,), (gate,) = cells(data)["kernels", "stack.h200"], cells(data)["gate", "symptom"]
    assert read(data, kernels)[1:] == ([], [["loads.max", "4", "6", "6", "4", "PG300 pass"]])
    assert [row[4] for row in read(data, gate)[1]] == ["cured"]
    assert read(data, gate)[2] == read(data, kernels)[2], "a symptom is drilled down to its workload's facts"


def test_without_the_case_even_a_green_verdict_is_told():
    data = page(one([fact(actual="4")])).data
    assert [row[4] for row in read(data, cells(data)["kernels", "stack.h200"][0])[1]] == ["4"]


def test_rows_of_one_patch_that_come_one_by_one_share_its_lines():
    parts = [one([fact(torch=t)], compared(torch=t), torches=(t,)) for t in ("2.12.1", "2.9.0")]
    data = page(*parts).data
    assert data["torches"] == ("2.9.0", "2.12.1")
    assert all(cells(data)["kernels", "stack.h200"])
    assert len(data["patches"]) == 1


def test_where_nothing_was_judged_there_is_nothing():
    data = page(one([fact()], torches=("2.9.0", "2.12.1"))).data
    assert cells(data)["kernels", "stack.h200"][1] == 0


def test_equal_tables_verdicts_and_code_are_kept_once():
    parts = [
        one([fact(torch=t, actual="4")], compared(torch=t, code=("a", "b")), torches=(t,)) for t in ("2.9.0", "2.12.1")
    ]
    data = page(*parts).data
    assert (len(data["tables"]), len(data["diffs"]), len(data["environments"])) == (1, 1, 1)
    assert len(data["cases"]) == 2


def test_a_side_that_failed_says_how():
    failure = Failure(cause=Cause.RAISED, stage="compile", signature="KeyError: 1", detail="Traceback", where="p.py:3")
    data = page(one([fact(Kind.REGRESSED, "PG305")], compared(failure=failure))).data
    before, after = (data["texts"][at] for at in data["cases"][0][3])
    assert (before, after) == ("", "raised in compile: KeyError: 1\nat p.py:3\nTraceback")


def test_code_that_was_not_kept_is_no_equal_code():
    assert page(one([fact()], compared())).data["cases"][0][5] is None
    assert page(one([fact()], compared(code=("a", "a")))).data["diffs"] == [(0, ())]


def test_history_is_told_where_there_is_more_than_one_run():
    past = {
        ("2.9.0", "unpatched", "loads.max"): ["6", "6"],
        ("2.9.0", "mine", "loads.max"): ["4", "5"],
        ("2.9.0", "mine", "loads"): ["[2, 1]", "[3, 1]"],
        ("2.9.0", "mine", "bytes"): ['{"unmeasured": "once"}'],
        ("2.12.1", "mine", "stores"): ["1", "2"],
    }
    data = page(one([fact()], compared()), past=lambda workload, device: past).data
    assert data["cases"][0][6] == (("loads", (), ("[2 1]", "[3 1]")), ("loads.max", ("6", "6"), ("4", "5")))


def test_a_finding_leads_to_the_cell_with_its_evidence():
    made = page(one([fact(Kind.REGRESSED, "PG301", torch="2.12.1")], torches=("2.9.0", "2.12.1")))
    (part,) = made.parts
    assert part.findings[0].evidence == ("mine", "kernels", "stack.h200", "2.12.1")


def test_a_finding_of_no_release_leads_nowhere():
    (part,) = page(one([fact(Kind.INFRA, "PG904", torch="")])).parts
    assert part.findings[0].evidence is None


@pytest.mark.parametrize(
    ("kinds", "colour", "summary"),
    [
        ([Kind.PASS], "green", "0 red, 1 green"),
        ([Kind.PASS, Kind.INFRA], "grey", "0 red, 1 green, 1 not judged"),
        ([Kind.INFRA, Kind.NEW, Kind.PASS], "red", "1 red, 1 green, 1 not judged"),
    ],
)
def test_a_patch_has_the_colour_of_its_worst_verdict(kinds, colour, summary):
    (part,) = page(one([fact(kind, subject=f"stack.h200 {kind.value}") for kind in kinds])).parts
    assert (part.colour.value, part.summary) == (colour, summary)


def test_only_codes_that_were_given_are_named():
    assert page(one([fact()])).data["codes"] == {"PG300": CODES["PG300"].title}


@pytest.mark.parametrize(
    ("text", "parted"),
    [
        ("mend it, then: nox -s gate -- p", ("mend it, then:", "nox -s gate -- p")),
        (
            "if meant: nox -s accept -- --reason '...'; if not: nox -s gate -- p",
            ("if meant: nox -s accept -- --reason '...'; if not:", "nox -s gate -- p"),
        ),
        ("patchgate explain PG301", ("", "patchgate explain PG301")),
        ("record it: nox -s accept -- --reason '...'.", ("record it:", "nox -s accept -- --reason '...'")),
        ("patchgate lint .", ("", "patchgate lint .")),
        ("ask whoever keeps patchgate going", ("ask whoever keeps patchgate going", "")),
        ("", ("", "")),
    ],
)
def test_the_command_at_the_end_of_an_advice_is_told_apart(text, parted):
    assert split_command(text) == parted


def test_a_value_is_kept_once():
    once = Once()
    assert [once.place(value) for value in ("a", "b", "a")] == [0, 1, 0]
    assert once.values == ["a", "b"]
