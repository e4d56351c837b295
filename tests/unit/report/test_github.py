"""Annotations: one a block, on a line of the checkout or on none; whatever is said stays inside its command."""

from dataclasses import replace

from patchgate.report.github import annotation, render_annotations
from patchgate.report.view import view


def told(verdicts, where, checkout):
    placed = [replace(verdict, where=where) for verdict in verdicts]
    return list(render_annotations(view(placed, ["2.9.0", "2.12.1"]), checkout))


def test_each_block_is_one_command_at_its_place(verdicts, folder):
    (folder / "patch.py").write_text("")
    lines = told(verdicts, str(folder / "patch.py:7"), folder)
    assert [line.partition("::")[2].partition(" ")[0] for line in lines] == ["error", "error", "warning"]
    assert lines[1] == (
        "::error file=patch.py,line=7,title=PG301 kernel facts changed::"
        "stack.h200 loads on torch 2.9.0, 2.12.1: [2 6] (expected: [2 4])%0Aand 1 more like it"
    )


def test_a_place_outside_the_checkout_is_left_out(verdicts, folder):
    (folder / "patch.py").write_text("")
    for where in ("none.py:7", str(folder / "patch.py:7"), None):
        lines = told(verdicts, where, folder / "other")
        assert lines
        assert [line for line in lines if "file=" in line] == []


def test_nothing_breaks_out_of_a_command():
    line = annotation("error", "a\n::error::b%0A", title="x,line=1::\ny")
    assert line == "::error title=x%2Cline=1%3A%3A%0Ay::a%0A::error::b%250A"
