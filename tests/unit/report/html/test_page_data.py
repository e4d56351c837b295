"""The page's view model: what a cell can be drilled down to, each value once, one address a
cell.
"""

from dataclasses import replace

import pytest
from samples import verdict

from patchgate.checks.framework.find_checks import catalogue
from patchgate.inputs.manifest import Claims, Patch, Symptom
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Command, Expectation, Failure, Observation
from patchgate.report.html.page_data import Page, Pool
from patchgate.report.last_lines import count_line
from patchgate.runner.run_results import ComparedCase, QuickLook, RunResults

COMMANDS = (Command(name="index", arguments=("drift", "torch.x"), when="then"),)
SYMPTOM = Symptom(workload="stack", device="h200", fact="loads.max", predicate="> 4")


def patch(name="mine"):
    return Patch(id=name, path="p.py", source="", claims=Claims(title="a title", symptom=SYMPTOM))


def compared(torch="2.9.0", before=6, after=4, golden=4, failure=None, code=None):
    case = Case(torch=torch, device="h200", workload="stack", patch="mine")
    bare = Case(torch=torch, device="h200", workload="stack")
    return ComparedCase(
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
    return verdict(kind, code, torch=torch, subject=subject, **rest)


def page(*judged, **given):
    made = Page(**given)
    for one in judged:
        made.add(one)
    return made


def one(verdicts, *cases, torches=("2.9.0",), name="mine"):
    return RunResults(
        patch=patch(name), torches=torches, verdicts=tuple(verdicts), compared=tuple(cases)
    )


def patches(data):
    """The patches of the page, as the script reads them."""
    pool = []
    for row in data["pool"]:
        if not isinstance(row, tuple):
            pool.append(row)
            continue
        shape, values = row[0], [pool[number] for number in row[1:]]
        pool.append(values if shape < 0 else dict(zip(data["shapes"][shape], values, strict=True)))
    return pool[data["patches"]]


def cells(data):
    lines = patches(data)[0]["lines"]
    return {(line["check"], line["item"]): line["cells"] for line in lines}


def facts_of(cell):
    return [list(fact.values()) for case in cell["cases"] for fact in case["facts"]]


def test_a_cell_is_drilled_down_to_golden_unpatched_and_patched():
    told = fact(
        Kind.REGRESSED,
        "PG301",
        expected="4",
        actual="5",
        why="w",
        advice="mend it",
        commands=COMMANDS,
    )
    data = page(one([told], compared(after=5))).data
    (cell,) = cells(data)["kernels", "stack.h200"]
    assert (cell["colour"], cell["count"], cell["codes"]) == (1, 1, ["PG301"])
    assert cell["verdicts"] == [
        {
            "colour": 1,
            "code": "PG301",
            "kind": "regressed",
            "subject": "stack.h200 loads.max",
            "expected": "4",
            "actual": "5",
            "where": None,
            "why": "w",
            "advice": "mend it",
            "commands": [{"when": "then", "text": "patchgate index drift torch.x"}],
        }
    ]
    assert facts_of(cell) == [["loads.max", "4", "6", "6", "5", "PG301", "regressed"]]


def test_a_side_that_was_not_measured_is_shown_as_recorded() -> None:
    case = compared(after=6, golden=6)
    case = replace(
        case, unpatched=None, golden_unpatched=replace(case.golden_unpatched, recorded=True)
    )
    data = page(one([fact()], case)).data
    (cell,) = cells(data)["kernels", "stack.h200"]
    assert facts_of(cell) == [["loads.max", "6", "6", "6", "6", "PG300", "pass"]]
    assert ["unpatched", "not measured: as recorded"] in cell["cases"][0]["environment"]


def test_green_facts_are_reported_by_their_table_alone_and_other_greens_by_their_verdict():
    symptom = replace(
        fact(code="PG211", actual="cured"), check="gate", item="symptom", fact="loads.max > 4"
    )
    data = page(one([fact(), symptom], compared())).data
    (kernels,), (gate,) = cells(data)["kernels", "stack.h200"], cells(data)["gate", "symptom"]
    assert kernels["verdicts"] == []
    assert facts_of(kernels) == [["loads.max", "4", "6", "6", "4", "PG300", "pass"]]
    assert [row["actual"] for row in gate["verdicts"]] == ["cured"]
    assert gate["cases"] == kernels["cases"], "a symptom is drilled down to its workload's facts"


def test_without_the_case_even_a_green_verdict_is_reported():
    (cell,) = cells(page(one([fact(actual="4")])).data)["kernels", "stack.h200"]
    assert [row["actual"] for row in cell["verdicts"]] == ["4"]


def test_rows_of_one_patch_that_come_one_by_one_share_its_lines():
    parts = [one([fact(torch=t)], compared(torch=t), torches=(t,)) for t in ("2.12.1", "2.9.0")]
    data = page(*parts).data
    assert data["torches"] == ("2.9.0", "2.12.1")
    assert None not in cells(data)["kernels", "stack.h200"]
    assert len(patches(data)) == 1


def test_where_nothing_was_judged_there_is_nothing():
    data = page(one([fact()], torches=("2.9.0", "2.12.1"))).data
    assert cells(data)["kernels", "stack.h200"][1] is None


def test_equal_tables_verdicts_and_code_are_kept_once():
    parts = [
        one([fact(torch=t, actual="4")], compared(torch=t, code=("a", "b")), torches=(t,))
        for t in ("2.9.0", "2.12.1")
    ]
    data = page(*parts).data
    (first,), (second,) = [cell["cases"] for cell in cells(data)["kernels", "stack.h200"]]
    assert first is not second
    for name in ("facts", "diff", "environment"):
        assert first[name] is second[name]


def test_a_side_that_failed_says_how():
    failure = Failure(
        cause=Cause.RAISED,
        stage="compile",
        signature="KeyError: 1",
        detail="Traceback",
        where="p.py:3",
    )
    data = page(one([fact(Kind.REGRESSED, "PG305")], compared(failure=failure))).data
    assert cells(data)["kernels", "stack.h200"][0]["cases"][0]["failures"] == {
        "unpatched": "",
        "patched": "raised in compile: KeyError: 1\nat p.py:3\nTraceback",
    }


def test_code_that_was_not_kept_is_no_equal_code():
    for code, diff in ((None, None), (("a", "a"), {"equal": 0, "kernels": [], "calls": []})):
        (cell,) = cells(page(one([fact()], compared(code=code))).data)["kernels", "stack.h200"]
        assert cell["cases"][0]["diff"] == diff


def test_history_is_reported_where_there_is_more_than_one_run():
    past = {
        ("2.9.0", "unpatched", "loads.max"): ["6", "6"],
        ("2.9.0", "mine", "loads.max"): ["4", "5"],
        ("2.9.0", "mine", "loads"): ["[2, 1]", "[3, 1]"],
        ("2.9.0", "mine", "bytes"): ['{"unmeasured": "once"}'],
        ("2.12.1", "mine", "stores"): ["1", "2"],
    }
    data = page(one([fact()], compared()), past=lambda workload, device: past).data
    assert cells(data)["kernels", "stack.h200"][0]["cases"][0]["history"] == [
        {"fact": "loads", "unpatched": [], "patched": ["[2 1]", "[3 1]"]},
        {"fact": "loads.max", "unpatched": ["6", "6"], "patched": ["4", "5"]},
    ]


@pytest.mark.parametrize(
    ("kinds", "colour", "summary"),
    [
        ([Kind.PASS], "green", "nothing red, 1 green"),
        ([Kind.PASS, Kind.INFRA], "grey", "nothing red, 1 green, 1 not judged"),
        (
            [Kind.INFRA, Kind.STALE, Kind.PASS],
            "red",
            "1 cause, 1 red result, 1 green, 1 not judged",
        ),
        ([Kind.NEW, Kind.PASS], "grey", "nothing red, 1 green, 1 grey note"),
    ],
)
def test_a_patch_has_the_colour_of_its_worst_verdict(kinds, colour, summary):
    ((_, shown),) = page(
        one([fact(kind, subject=f"stack.h200 {kind.value}") for kind in kinds])
    ).views
    assert (shown.colour.value, count_line(shown)) == (colour, summary)


def test_the_page_of_a_narrowed_run_is_a_quick_look():
    look = QuickLook(
        workloads=(1, 13),
        torches=(1, 2),
        devices=(2, 2),
        checks=(9, 9),
        command=Command(name="gate"),
    )
    ((_, shown),) = page(replace(one([fact(Kind.PASS)]), quick_look=look)).views
    assert count_line(shown).startswith(
        "QUICK LOOK: no problem in 1 of 13 workloads on 1 of 2 releases. Not a gate result"
    )


def test_only_codes_that_were_given_are_named():
    assert page(one([fact()])).data["codes"] == {"PG300": catalogue()["PG300"].title}


def test_a_value_is_kept_once_and_the_keys_of_a_mapping_too():
    pool = Pool()
    told = [{"letter": letter, "size": [1]} for letter in ("a", "b", "a")]
    assert [*map(pool.place, told)] == [3, 5, 3]
    assert pool.rows == ["a", 1, (-1, 1), (0, 0, 2), "b", (0, 4, 2)]
    assert [*pool.shapes] == [("letter", "size")]
    assert pool.rows[pool.place(True)] is True, "no number"
