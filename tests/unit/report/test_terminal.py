"""The view in a terminal, word for word."""

import io
from dataclasses import replace

from expecttest import assert_expected_inline
from rich.console import Console

from patchgate.model.records import Code
from patchgate.report.explain import show_code
from patchgate.report.terminal import show_run, to_stdout
from patchgate.report.view import view


def printed(show, *arguments, width=100):
    file = io.StringIO()
    show(Console(file=file, width=width, color_system=None), *arguments)
    return "\n".join(
        line.rstrip().replace("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "-") for line in file.getvalue().splitlines()
    )


def test_a_run_is_a_matrix_and_a_block_for_each_thing_to_act_on(verdicts):
    assert_expected_inline(
        printed(show_run, "mine: a title", view(verdicts, ["2.9.0", "2.12.1"])),
        """\
mine: a title

 check     item            2.9.0     2.12.1
 -------------------------------------------
 machine   sentinel.h200   ok 1      -
 gate      versions        PG201 1   -
 kernels   stack.h200      PG301 2   PG301 1
 graph     stack.h200      ok 1      -
 parity    stack.cpu       PG508 1   -

PG201  applies where it is not claimed
   gate versions on torch 2.9.0
        expected ==2.9.0
        actual   a|b <c>
    why untested
   next tighten
        patchgate explain PG201

PG301  kernel facts changed
kernels stack.h200 loads on torch 2.9.0, 2.12.1
        expected [2 4]
        actual   [2 6]
kernels stack.h200 loads.max on torch 2.9.0
        expected 4
        actual   6
  where code/stack.py
    why worse kernels are merged
   next mend the patch
        patchgate explain PG301

NOT JUDGED PG508  parity could not be measured
 parity stack.cpu on torch 2.9.0
        expected runs
        actual   no g++
    why nobody looked
   next install g++
        patchgate explain PG508

4 red, 3 green, 1 not judged""",
    )


def test_a_green_run_has_no_blocks(verdicts):
    green = [verdict for verdict in verdicts if verdict.colour.value == "green"]
    assert_expected_inline(
        printed(show_run, "mine", view(green, ["2.9.0"])),
        """\
mine

 check     item            2.9.0
 -------------------------------
 machine   sentinel.h200   ok 1
 kernels   stack.h200      -
 graph     stack.h200      ok 1

0 red, 3 green""",
    )


def test_a_long_block_is_cut_and_says_so(verdicts):
    many = [replace(verdicts[0], fact=f"fact{n:02}", where=f"code/{n}.py") for n in range(20)]
    told = printed(show_run, "mine", view(many, ["2.12.1"]))
    assert "and 4 more, all in verdicts.json" in told
    assert "and 17 more" in told
    assert ("fact15" in told, "fact16" in told, "code/2.py" in told, "code/3.py" in told) == (True, False) * 2


def test_text_of_a_patch_is_never_taken_for_markup(verdicts):
    odd = [replace(verdicts[0], actual="[bold]x[/red]")]
    assert "[bold]x[/red]" in printed(show_run, "[dim]mine[/dim]", view(odd, ["2.12.1"]))


def test_a_code_is_explained():
    code = Code(code="PG000", title="a title", what="what it is", why="why it matters", fix="how to fix it")
    assert_expected_inline(
        printed(show_code, code, width=60),
        """\
PG000  a title
   what what it is
    why why it matters
    fix how to fix it""",
    )


def test_in_a_pipe_it_is_as_wide_as_columns_says_without_blanks_at_the_ends(verdicts, capsys, monkeypatch):
    widest = {}
    verdicts = [replace(one, why="word " * 60) for one in verdicts]
    for columns in ("60", "90", None):
        monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS")
        to_stdout(lambda console: show_run(console, "mine", view(verdicts, ["2.9.0"])))
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        widest[columns] = max(map(len, lines))
    assert widest["60"] <= 60 < widest["90"] <= 90 < widest[None] <= 140


def test_the_name_of_a_check_is_never_cut(verdicts):
    long = [
        replace(one, check="modelled", item=f"a_workload_with_a_long_name.{at}", fact="")
        for at, one in enumerate(verdicts)
    ]
    shown = printed(show_run, "mine", view(long, ["2.9.0", "2.12.1"]), width=50)
    assert "\u2026" not in shown and "\nmodelled a_workload" in shown
