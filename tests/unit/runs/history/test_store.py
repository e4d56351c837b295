"""History keeps every row once, tells series, and loses nothing when copies are merged."""

import sqlite3
from dataclasses import replace

import pytest
from click.testing import CliRunner

from patchgate.cli.sweep import history_command
from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Observation, Verdict
from patchgate.model.results import Point
from patchgate.report.history import render_series
from patchgate.runs.history.regressions import transitions
from patchgate.runs.history.store import History

CASE = Case(torch="2.11.0", device="h200", workload="stack")
CELL = ("mine", "2.11.0", "kernels", "stack.h200", "loads")


def verdict(code="PG300", kind=Kind.PASS, actual="[2 1]"):
    case = replace(CASE, patch="mine")
    return Verdict(
        code=code,
        kind=kind,
        check="kernels",
        case=case,
        item=case.name,
        fact="loads",
        actual=actual,
    )


def observation(loads):
    return Observation(case=CASE, facts={"loads": loads, "loads.max": max(loads)})


@pytest.fixture
def history(tmp_path):
    made = History(tmp_path / "history.sqlite")
    yield made
    made.close()


def test_a_row_is_kept_once_however_often_it_is_recorded(history):
    for _ in range(3):
        history.record("r1", "2026-01-01", "mine", [verdict()], [observation((2, 1))])
    assert history.counts() == {"run": 1, "content": 2, "judged": 1, "observed": 1, "cost": 0}


def test_each_nightly_build_continues_the_line_of_the_one_before(history):
    for day, value, found in (
        ("20", 6, verdict()),
        ("21", 7, verdict("PG301", Kind.REGRESSED, "7")),
    ):
        torch = f"2.16.0.dev202611{day}+cu130"
        seen = replace(CASE, torch=torch)
        history.record(
            f"r{day}",
            f"2026-11-{day}",
            "mine",
            [replace(found, case=replace(found.case, torch=torch))],
            [Observation(case=seen, facts={"loads.max": value})],
        )
    points = history.series("stack", "h200", "loads.max")
    assert [(point.torch, point.value) for point in points] == [
        ("2.16.0.dev", "6"),
        ("2.16.0.dev", "7"),
    ]
    assert history.past("stack", "h200", 2) == {
        ("2.16.0.dev", "unpatched", "loads.max"): ["6", "7"]
    }
    before, after = history.recent(2)
    (turned,) = transitions(before, after)
    assert turned.key == ("mine", "2.16.0.dev", "kernels", "stack.h200", "loads")
    assert str(turned) == "green -> red (PG301)"


def test_a_series_is_reported_in_order_of_time(history):
    for day, loads in (("03", (2, 6)), ("01", (2, 4)), ("02", (2, 4))):
        history.record(f"r{day}", f"2026-01-{day}", "mine", [], [observation(loads)])
    points = history.series("stack", "h200", "loads.max")
    assert [point.value for point in points] == ["4", "4", "6"]
    assert list(render_series(points)) == [
        "unpatched on torch 2.11.0",
        "  2026-01-01  4 (2 runs)",
        "  2026-01-03  6",
    ]
    assert history.series("stack", "h200", "loads", "mine") == []
    assert history.series("stack", "h200", "loads")[0] == Point(
        at="2026-01-01", torch="2.11.0", patch="unpatched", value="[2, 4]"
    )


def test_the_past_of_a_case_is_that_of_the_last_runs_only(history):
    for number, loads in enumerate([(9, 9), (2, 1), (3, 1)]):
        history.record(f"r{number}", f"2026-01-0{number + 1}", "mine", [], [observation(loads)])
    assert history.past("stack", "h200", 2) == {
        ("2.11.0", "unpatched", "loads"): ["[2, 1]", "[3, 1]"],
        ("2.11.0", "unpatched", "loads.max"): ["2", "3"],
    }
    assert history.past("stack", "cpu", 2) == {}


def test_merging_either_way_gives_the_same_rows_and_none_twice(tmp_path):
    paths = [tmp_path / name for name in ("a.sqlite", "b.sqlite")]
    made = [History(path) for path in paths]
    for number, one in enumerate(made):
        one.record("shared", "2026-01-01", "mine", [verdict()], [observation((2, 1))])
        one.record(f"own{number}", "2026-01-02", "mine", [verdict()], [observation((2, 1))])
        one.spend(f"own{number}", "mine", "2.11.0", 7.0)
    made[0].record("last", "2026-01-03", "mine", [verdict("PG301", Kind.REGRESSED, "6")], [])
    with sqlite3.connect(tmp_path / "copy.sqlite") as copy, sqlite3.connect(paths[0]) as first:
        first.backup(copy)
    made[0].merge(paths[1])
    made[1].merge(tmp_path / "copy.sqlite")
    made[1].merge(tmp_path / "copy.sqlite")
    assert (
        made[0].counts()
        == made[1].counts()
        == {
            "run": 4,
            "content": 3,
            "judged": 4,
            "observed": 3,
            "cost": 2,
        }
    )
    assert made[0].recent(1) == made[1].recent(1) == [{CELL: ("red", "PG301", "6")}]
    for one in made:
        one.close()


def test_of_the_last_runs_checks_that_stayed_green_and_the_same_are_left_out(history):
    def told(check, item, fact="", kind=Kind.PASS):
        return replace(verdict(kind=kind), check=check, item=item, fact=fact)

    for day, graphs, loads in (
        ("1", "a", Kind.PASS),
        ("2", "a", Kind.REGRESSED),
        ("3", "b", Kind.PASS),
    ):
        said = [
            told("kernels", "stack.h200", "loads", loads),
            told("graph", graphs),
            told("parity", "bits"),
        ]
        history.record(f"r{day}", f"2026-01-0{day}", "mine", said, [])
    assert [sorted(key.subject for key in verdicts) for verdicts in history.recent(3)] == [
        ["a", "stack.h200 loads"],
        ["a", "stack.h200 loads"],
        ["b", "stack.h200 loads"],
    ]
    assert [sorted(key.subject for key in verdicts) for verdicts in history.recent(1)] == [[]]
    history.record("r4", "2026-01-04", "mine", [told("kernels", "stack.h200", "loads")], [])
    assert [sorted(key.subject for key in verdicts) for verdicts in history.recent(2)] == [
        ["b", "bits"],
        [],
    ]


def test_a_history_of_another_format_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "old.sqlite") as old:
        old.execute("CREATE TABLE run (id TEXT)")
    old.close()
    with pytest.raises(UsageError, match="tables of format 0, this patchgate writes 2"):
        History(tmp_path / "old.sqlite")


def test_a_job_costs_what_it_took_when_it_was_last_judged(history):
    for day, seconds in (("02", 30.0), ("01", 50.0)):
        history.record(f"r{day}", f"2026-01-{day}", "mine", [], [])
        history.spend(f"r{day}", "mine", "2.11.0", seconds)
    assert history.costs() == {("mine", "2.11.0"): 30.0}


def test_a_file_that_is_no_history_is_refused(tmp_path, history):
    (tmp_path / "x").write_text("no database, and long enough to be taken for none" * 10)
    for refused in (lambda: History(tmp_path / "x"), lambda: history.merge(tmp_path / "nothing")):
        with pytest.raises(UsageError):
            refused()


def test_the_command_prints_a_series_and_refuses_what_is_not_there(tmp_path, history):
    history.record(
        "r1", "2026-01-01", "mine", [verdict("PG301", Kind.REGRESSED)], [observation((2, 1))]
    )
    folder = ["--folder", str(tmp_path)]
    assert (
        "  2026-01-01  2\n"
        in CliRunner().invoke(history_command, ["stack.h200.loads.max", *folder]).output
    )
    assert CliRunner().invoke(history_command, folder).output.startswith("- [ ] **new** PG301")
    for fact in ("stack.h200.nothing", "stack"):
        assert isinstance(
            CliRunner().invoke(history_command, [fact, *folder]).exception, UsageError
        )
