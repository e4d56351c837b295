"""pytest's door: what a cell says, what is left when it says nothing, and how cells are made."""

import pytest

from patchgate.runner.run import Run, load_verdicts, save_run

pytest_plugins = ["pytester"]

CELLS = """
from patchgate.model.records import Kind, Verdict

def verdict(kind):
    return Verdict(code="PG301", kind=kind, check="kernels", torch="2.11.0", subject=kind.value, actual="6")
"""


@pytest.fixture
def gate(pytester, monkeypatch):
    """Runs a suite of one file as the gate does: pytest's outcomes, and the verdicts that were left."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(cells, problems=None, patch=("mine.py", "")):
        path = pytester.path / patch[0]
        path.write_text(patch[1])
        made = Run(folder=str(pytester.path / "out"), patch=str(path), rows={}, problems=problems or {})
        pytester.makepyfile(test_kernels=CELLS + cells)
        options = ["-p", "no:xdist", "-p", "no:cacheprovider", "--patchgate-run", str(save_run(made))]
        outcomes = pytester.runpytest_inprocess(*options).parseoutcomes()
        return outcomes, load_verdicts(pytester.path / "out")

    return run


@pytest.mark.parametrize(
    ("kind", "outcome"), [("PASS", "passed"), ("NOTE", "passed"), ("INFRA", "passed"), ("REGRESSED", "red")]
)
def test_a_cell_fails_when_one_of_its_verdicts_is_red(gate, kind, outcome):
    outcomes, verdicts = gate(f"def test_cell(judge): judge([verdict(Kind.PASS), verdict(Kind.{kind})])")
    assert outcomes == {outcome: 1}
    assert {verdict.kind.name for verdict in verdicts} == {"PASS", kind}


DIFF = """\
--- a/torch/_inductor/ir.py
+++ b/torch/_inductor/ir.py
@@ -1,1 +1,1 @@
-x = 1
+x = 2
"""


@pytest.mark.parametrize(
    ("patch", "where", "told"),
    [
        (("mine.py", ""), "patch.path + ':3'", "mine.py:3"),
        (("mine.diff", DIFF), "patch.path + ':3'", "mine.diff"),
        (("mine.diff", DIFF), "'mine.toml:2'", "mine.toml:2"),
        (("mine.diff", DIFF), "None", None),
    ],
)
def test_a_place_in_what_stands_for_a_diff_is_told_as_the_diff(gate, patch, where, told):
    cell = f"""
from dataclasses import replace
from patchgate.model.paths import shown
def test_cell(judge, patch):
    where = {where}
    judge([replace(verdict(Kind.PASS), where=where and shown(where))])
"""
    _, (verdict,) = gate(cell, patch=patch)
    assert verdict.where == told if told is None else verdict.where.endswith(told)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("def test_cell(judge): judge([])", "a check that says nothing has judged nothing"),
        ("def test_cell(judge): raise OSError('no disk')", "OSError"),
        ("def test_cell(nobody): pass", "nobody"),
        ("import nothing_at_all", None),
    ],
)
def test_a_cell_that_ends_without_a_verdict_is_never_green(gate, cell, told):
    outcomes, verdicts = gate(cell)
    assert outcomes.keys() & {"failed", "error", "errors"} and "red" not in outcomes
    assert told is None or [verdict.code for verdict in verdicts] == ["PG904"]


def test_a_red_cell_is_not_told_twice(gate):
    _, verdicts = gate("def test_cell(judge): judge([verdict(Kind.NEW)])")
    assert [verdict.code for verdict in verdicts] == ["PG301"]


def test_what_is_red_is_said_at_once_and_what_is_green_is_not(gate, capsys):
    gate("def test_cell(judge): judge([verdict(Kind.PASS), verdict(Kind.NEW)])\ndef test_next(): raise SystemExit")
    printed = capsys.readouterr().out
    line = "PG301 kernels new on torch 2.11.0: 6"
    assert line in printed.splitlines()
    assert printed.index(line) < printed.index("SystemExit")
    assert "kernels pass" not in printed


def test_a_check_without_rows_has_no_cell(gate):
    outcomes, verdicts = gate("def test_cell(torch, device, judge): judge([])", {"2.11.0": "no wheel"})
    assert (outcomes, [verdict.code for verdict in verdicts]) == ({"skipped": 1}, ["PG901"])


def test_without_a_run_the_plugin_stays_out_of_the_way(pytester):
    # Named as a check of ours is: were the plugin in the way, it would ask for the cells of a run.
    pytester.makepyfile(test_kernels="def test_cell(): pass")
    assert pytester.runpytest_inprocess("-p", "no:xdist", "-p", "no:cacheprovider").parseoutcomes() == {"passed": 1}


def test_what_is_said_at_once_cannot_recolour_or_turn_the_terminal(gate, capsys):
    said = "'\\x1b[2J\\u202e\\x07b'"
    gate(f"from dataclasses import replace\ndef test_cell(judge): judge([replace(verdict(Kind.NEW), actual={said})])")
    assert r"PG301 kernels new on torch 2.11.0: \x1b[2J\u202e\x07b" in capsys.readouterr().out.splitlines()
