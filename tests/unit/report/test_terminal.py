"""The view in a terminal, word for word."""

import io
import os
from dataclasses import replace

import pytest
from expecttest import assert_expected_inline
from rich.console import Console
from samples import verdict

from patchgate.model.policy import Kind
from patchgate.model.records import Code
from patchgate.report.explain import show_code
from patchgate.report.terminal import show_run, to_stdout
from patchgate.report.view import view


def printed(show, *arguments, width=100):
    file = io.StringIO()
    show(Console(file=file, width=width, color_system=None), *arguments)
    return "\n".join(
        line.rstrip()
        .replace("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "-")
        .replace("\N{HORIZONTAL ELLIPSIS}", "~")
        for line in file.getvalue().splitlines()
    )


def test_a_run_is_what_is_not_green_the_causes_and_the_answer(verdicts):
    assert_expected_inline(
        printed(show_run, "mine: a title", view(verdicts, ["2.9.0", "2.12.1"])),
        """\
mine: a title
check     item             2.9.0     2.12.1
--------------------------------------------
gate      versions         PG201 1   -
kernels   stack.h200       PG301 2   PG301 1
parity    stack.cpu        PG508 1   -
others    machine, graph   2 ok      -

1. The patch applies on other releases than it claims.
  PG201 versions on torch 2.9.0: a|b <c>; expected: ==2.9.0
     do Tighten

2. The patch changes the graph or the generated code, and the change is not accepted.
  PG301 stack.h200 loads on torch 2.12.1: [2 6]; expected: [2 4]
   cost no change in kernels called, bytes moved, bytes of memory at the peak
  where code/stack.py
     do Mend the patch
   also PG301 stack.h200 loads on torch 2.9.0: [2 6]
        PG301 stack.h200 loads.max on torch 2.9.0: 6

not judged: PG508 parity could not be measured: stack.cpu on torch 2.9.0: no g++
  next: install g++
1. PG201 -        applies where it is not claimed: versions: a|b <c>
2. PG301 stack.py kernel facts changed: stack.h200 loads: [2 6]
2 causes, 4 red results, 3 green, 1 not judged""",
    )


def test_notes_are_named_by_their_codes():
    codes = ("PG211", "PG214", "PG230", "PG231", "PG303", "PG501", "PG803")
    kinds = [Kind.WARNING] * 2 + [Kind.ASSUMED] + [Kind.WARNING] * 4
    told = [
        verdict(kind, code, "gate", subject=f"effects {code}", actual="as found " * 20)
        for kind, code in zip(kinds, codes, strict=True)
    ]
    told.append(verdict(Kind.WARNING, "PG214", "gate", subject="effects more", actual="x"))
    lines = printed(show_run, "mine", view(told, ["2.9.0"])).splitlines()
    noted = [line for line in lines if line.startswith("note: ")]
    assert [line.split()[1] for line in noted] == ["PG211", "PG214", "PG230", "PG231", "PG303"]
    assert noted[1].startswith("note: PG214 ")
    assert "(and 1 more): effects" in noted[1]
    assert max(map(len, noted)) <= 100
    assert "and 2 more in the report" in lines


def test_a_green_run_is_one_row(verdicts):
    green = [verdict for verdict in verdicts if verdict.colour.value == "green"]
    assert_expected_inline(
        printed(show_run, "mine", view(green, ["2.9.0"])),
        """\
mine
check   item                      2.9.0
---------------------------------------
all     machine, kernels, graph   2 ok

nothing red, 3 green""",
    )


def test_long_lists_are_cut_and_say_so(verdicts):
    many = [replace(verdicts[0], fact=f"fact{n:02}", item=f"w{n:02}.cpu") for n in range(20)]
    told = printed(show_run, "mine", view(many, ["2.12.1"]))
    assert "4 more rows, in the report" in told
    assert ("w15" in told, "w16" in told) == (True, False)
    assert (
        "also PG301 w01.cpu fact01, w02.cpu fact02, w03.cpu fact03, w04.cpu fact04 and 15 more: [2 "
        "6]"
    ) in told
    told = printed(
        show_run, "mine", view([replace(one, actual=one.fact) for one in many], ["2.12.1"])
    )
    assert "also PG301 w01.cpu fact01: fact01" in told
    assert "and 13 more, in the report" in told
    grey = [replace(one, kind=Kind.UNMEASURED, actual="word " * 90) for one in many]
    told = printed(show_run, "mine", view(grey, ["2.12.1"]))
    assert "and 17 more, in the report" in told
    assert [line for line in told.splitlines() if len(line) > 100] == []


def test_long_advice_is_cut_after_its_first_sentence_and_leads_to_the_rest(verdicts):
    advice = f"Do this first. {'Then that. ' * 40}"
    told = printed(show_run, "mine", view([replace(verdicts[0], advice=advice)], ["2.12.1"]))
    assert "do Do this first (more: patchgate explain PG301)" in told
    assert "Then that" not in told


def test_text_of_a_patch_is_never_taken_for_markup(verdicts):
    odd = [replace(verdicts[0], actual="[bold]x[/red]")]
    assert "[bold]x[/red]" in printed(show_run, "[dim]mine[/dim]", view(odd, ["2.12.1"]))


def test_a_code_is_explained():
    code = Code(
        code="PG000", title="a title", what="what it is", why="why it matters", fix="how to fix it"
    )
    assert_expected_inline(
        printed(show_code, code, width=60),
        """\
PG000  a title
   what what it is
    why why it matters
    fix how to fix it""",
    )


def test_in_a_pipe_it_is_as_wide_as_columns_says_without_blanks_at_the_ends(
    verdicts, capsys, monkeypatch
):
    widest = {}
    verdicts = [replace(one, actual="word " * 50) for one in verdicts]
    for columns in ("60", "90", None):
        monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS")
        to_stdout(lambda console: show_run(console, "mine", view(verdicts, ["2.9.0"])))
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        widest[columns] = max(map(len, lines))
    assert widest["60"] <= 60 < widest["90"] <= 90 < widest[None] <= 140


def test_the_name_of_a_check_is_never_cut(verdicts):
    long = [
        replace(one, check="liveness", item=f"a_workload_with_a_long_name.{at}", fact="")
        for at, one in enumerate(verdicts)
    ]
    shown = printed(show_run, "mine", view(long, ["2.9.0", "2.12.1"]), width=50)
    assert "\nliveness   a_workload" in shown


@pytest.mark.parametrize(
    ("place", "quoted"),
    [
        ("patch.py", True),
        ("patch.toml", True),
        ("../outside.py", False),
        ("link.py", False),
        (".cargo/credentials.toml", False),
        ("id_rsa", False),
        ("pipe.py", False),
        ("absent.py", False),
    ],
)
def test_a_line_is_quoted_of_the_repositorys_sources_only(
    verdicts, tmp_path, monkeypatch, place, quoted
):
    here = tmp_path / "here"
    (here / ".git").mkdir(parents=True)
    (here / ".cargo").mkdir()
    for name in ("patch.py", "patch.toml", "../outside.py", ".cargo/credentials.toml", "id_rsa"):
        (here / name).write_text("SECRET = 1\n")
    (here / "link.py").symlink_to(tmp_path / "outside.py")
    os.mkfifo(here / "pipe.py")
    monkeypatch.chdir(here)
    red = next(verdict for verdict in verdicts if verdict.code == "PG201")
    text = printed(show_run, "mine", view([replace(red, where=f"{place}:1")], ["2.9.0"]))
    assert ("SECRET" in text) is quoted


def test_in_a_narrow_terminal_headings_give_way_before_names(verdicts):
    odd = [replace(each, applies=each.torch != "2.12.1") for each in verdicts]
    text = printed(show_run, "mine", view(odd, ["2.9.0", "2.12.1"]), width=48)
    assert "machine, graph" in text and "stack.h200 " in text
    assert "(does not" in text and "(does not apply)" not in text
    assert "(does not apply)" in printed(show_run, "mine", view(odd, ["2.9.0", "2.12.1"]), width=90)
