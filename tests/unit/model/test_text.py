"""Characters that nobody sees are shown as escapes; all others stay as they are."""

import io
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from patchgate.model.policy import Kind
from patchgate.model.records import Case, Command, Verdict
from patchgate.model.results import (
    FailureGroup,
    Point,
    Regressions,
    Transition,
    VerdictKey,
    VerdictSummary,
)
from patchgate.model.text import did_you_mean, escape_control
from patchgate.report.github_annotations import annotation, render_annotations
from patchgate.report.history import render_checklist, render_series, render_transitions
from patchgate.report.markdown import as_code, render_markdown
from patchgate.report.terminal import show_run
from patchgate.report.view import view

HOSTILE = "a\x1b[31mred\x07 \u202egnp.exe\u2069\x9b\r\ud800"
UNSEEN = set("\x1b\x07\u202e\u2069\x9b\r\ud800")


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "größer 漢字 עברית é ≤", ""])
def test_what_can_be_read_stays(text):
    assert escape_control(text) == text


def test_what_nobody_sees_is_an_escape():
    assert escape_control(HOSTILE) == r"a\x1b[31mred\x07 \u202egnp.exe\u2069\x9b\r\ud800"


@given(st.text())
def test_nothing_unseen_is_left(text):
    left = escape_control(text).replace("\n", "").replace("\t", "")
    assert not {unicodedata.category(one) for one in left} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("name", "asked"),
    [("residual_stak", "did you mean `residual_stack`?"), ("zzz", ""), ("", "")],
)
def test_the_nearest_name_is_asked_for(name, asked):
    assert did_you_mean(name, {"residual_stack": 1, "attention": 2}) == asked
    assert did_you_mean(name, iter(["attention", "residual_stack"])) == asked


def reports():
    verdict = Verdict(
        code="PG201", kind=Kind.REGRESSED, check="gate", case=Case(torch="2.11.0"), item=HOSTILE, fact=HOSTILE,
        expected=HOSTILE, actual=HOSTILE, where=HOSTILE, why=HOSTILE, advice=HOSTILE,
        commands=(Command(name=HOSTILE, arguments=(HOSTILE,), when=HOSTILE),),
    )  # fmt: skip
    shown, out = view([verdict], ["2.11.0"]), io.StringIO()
    show_run(Console(file=out, width=200), HOSTILE, shown)
    yield "terminal", out.getvalue()
    yield "markdown", render_markdown(HOSTILE, shown)
    yield "code", as_code(HOSTILE)
    yield (
        "series",
        "".join(render_series([Point(at="now", torch="2.11.0", patch=HOSTILE, value=HOSTILE)])),
    )
    key = VerdictKey(HOSTILE, "2.11.0", "gate", HOSTILE, HOSTILE)
    failed = FailureGroup(bucket="new", code="PG201", signature=HOSTILE, keys=(key,))
    regressions = Regressions(runs=(), transitions=None, groups=(failed,), flaky=(key,))
    yield "checklist", "".join(render_checklist(regressions))
    colours = [VerdictSummary(colour, "PG201", HOSTILE) for colour in ("green", "red")]
    yield (
        "transitions",
        "".join(render_transitions([Transition(key=key, before=colours[0], after=colours[1])])),
    )
    yield "github", "".join(render_annotations(shown, "none.py", Path("/nowhere")))
    yield "annotation", annotation("error", HOSTILE, file=HOSTILE)


def test_no_report_lets_a_patch_write_over_it():
    assert {name for name, text in reports() if not UNSEEN.isdisjoint(text)} == set()
