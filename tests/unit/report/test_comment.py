"""A comment shows results that an attacker may have written: as text, whole or not at all."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Command
from patchgate.report.comment import MARKER, render_comment
from patchgate.report.markdown import as_code
from patchgate.runner.run_settings import Run, save_run, save_verdicts


@pytest.fixture
def results(folder):
    """Leaves results as a job would, and tells their folder."""

    def leave(name, verdicts, patch="mine", torch="2.11.0"):
        save_run(
            Run(folder=str(folder / name), patch=f"/elsewhere/{patch}", rows={torch: "python"})
        )
        save_verdicts(folder / name, verdicts)
        return folder / name

    return leave


def test_the_torches_of_several_machines_stand_side_by_side(verdicts, results):
    mine = [replace(verdict, case=Case(torch="2.11.0")) for verdict in verdicts]
    theirs = [replace(verdict, case=Case(torch="2.12.1")) for verdict in verdicts]
    text = render_comment(
        [results("a", mine), results("b", theirs, torch="2.12.1"), results("c", mine, "other")]
    )
    assert text.startswith(f"{MARKER}\n### ✗ ` mine ` on torch 2.11.0, 2.12.1\n")
    assert "| check | item | torch 2.11.0 | torch 2.12.1 |" in text
    assert "\n### ✗ ` other ` on torch 2.11.0\n" in text


def test_a_machine_that_judged_twice_counts_once(verdicts, results):
    folder = results("a", verdicts)
    assert render_comment([folder, folder]) == render_comment([folder])


EVIL = "@everyone ![x](https://example.org/x.png) <img src=x> owner/repo#1 | `` ` ``\n## torch"


def test_what_was_said_is_text_only(verdicts, results):
    words = dict.fromkeys(("item", "fact", "actual", "check", "why", "advice"), EVIL)
    command = Command(name=EVIL, arguments=(EVIL,), when=EVIL)
    evil = [replace(verdict, **words, commands=(command,)) for verdict in verdicts]
    text = render_comment([results("a", evil, patch="@everyone")])
    outside = "".join(
        part for at, part in enumerate(text.replace("```", "\0").split("\0")) if at % 2 == 0
    )
    assert "@everyone" in text
    assert not [word for word in ("![", "<img", "owner/repo") if word in outside]
    rows = [line for line in text.splitlines() if line.startswith("| ```")]
    assert {line.count("|") - line.count("\\|") for line in rows} == {4}


@given(st.text())
def test_a_span_ends_where_it_should(text):
    span = as_code(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert span == "" or (
        span.endswith(f" {fence}") and fence not in span[len(fence) : -len(fence)]
    )
    assert "\n" not in span


@pytest.mark.parametrize(
    "change", [{"case": Case(torch="2.11.0 | x")}, {"code": "PG999"}, {"code": "../x"}]
)
def test_what_cannot_be_a_result_is_refused(verdicts, results, change):
    with pytest.raises(UsageError):
        render_comment([results("a", [replace(verdicts[0], **change)])])


def test_a_long_one_is_cut_at_a_line(verdicts, results):
    many = [replace(verdicts[0], item=f"cell{n}", actual="y" * 200) for n in range(2000)]
    text = render_comment([results("a", many)])
    assert len(text) < 65_000
    assert text.endswith("\n\nThe rest is in the artifacts of the run.\n\n</details>\n")


def test_without_results_it_says_so():
    assert render_comment([]) == f"{MARKER}\nNothing was judged.\n"
