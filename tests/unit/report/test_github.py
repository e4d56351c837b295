"""Annotations: one a block, on a line of the checkout or on none; whatever is said stays inside its
command.
"""

import json
from dataclasses import replace

from patchgate.model.policy import Colour
from patchgate.report.github_annotations import (
    among_commands,
    annotation,
    commands_end,
    render_annotations,
)
from patchgate.report.sarif import Place, render_sarif, sarif_result
from patchgate.report.view import view


def told(verdicts, where, checkout):
    placed = [replace(verdict, where=where) for verdict in verdicts]
    return list(
        render_annotations(view(placed, ["2.9.0", "2.12.1"]), str(checkout / "none.py"), checkout)
    )


def test_each_block_is_one_command_at_its_place(verdicts, folder):
    (folder / "patch.py").write_text("")
    lines = told(verdicts, str(folder / "patch.py:7"), folder)
    assert [line.partition("::")[2].partition(" ")[0] for line in lines] == [
        "error",
        "error",
        "warning",
    ]
    assert lines[1] == (
        "::error file=patch.py,line=7,title=PG301 kernel facts changed::"
        "stack.h200 loads on torch 2.9.0, 2.12.1: [2 6] (expected: [2 4])%0Aand 1 more like "
        "it%0Afix: mend the patch"
    )


def test_a_place_outside_the_checkout_is_left_out(verdicts, folder):
    (folder / "patch.py").write_text("")
    for where in ("none.py:7", str(folder / "patch.py:7"), None):
        lines = told(verdicts, where, folder / "other")
        assert lines
        assert [line for line in lines if "file=" in line] == []


def test_what_has_no_line_is_shown_at_the_line_of_the_patch_that_another_has(verdicts, folder):
    (folder / "patch.py").write_text("")
    (folder / "patch.toml").write_text("")
    first, second, *_ = (verdict for verdict in verdicts if verdict.colour is Colour.RED)
    placed = [
        replace(first, where="patch.toml"),
        replace(second, where="patch.py:42", code="PG701"),
    ]
    lines = list(render_annotations(view(placed, ["2.9.0", "2.12.1"]), "patch.py", folder))
    assert [line.count("file=patch.py,line=42,") for line in lines] == [1, 1]
    alone = list(render_annotations(view(placed[:1], ["2.12.1"]), "patch.py", folder))
    assert "file=patch.py,line=1," in alone[0]


def test_nothing_breaks_out_of_a_command():
    line = annotation("error", "a\n::error::b%0A", title="x,line=1::\ny")
    assert line == "::error title=x%2Cline=1%3A%3A%0Ay::a%0A::error::b%250A"


def test_only_between_two_secret_lines_a_runner_takes_a_line_for_a_command(monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    first, command, last = among_commands(["::error::x"]).splitlines()
    assert (command, last) == ("::error::x", f"::stop-commands::{first.strip(':')}")
    assert (first, last) == (commands_end(False), commands_end(True))
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert among_commands(["::error::x"]) == "::error::x"


def test_no_text_of_a_patch_is_a_link_in_sarif():
    place = Place(path="x", line=1)
    result = sarif_result("PG210", "see [the fix](https://evil)", place, is_red=True)
    (found,) = json.loads(render_sarif([], [result]))["runs"][0]["results"]
    assert found["message"]["text"] == "see [the fix] (https://evil)"
