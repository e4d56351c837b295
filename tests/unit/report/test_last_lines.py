"""The last lines of a run: what was judged, what was not, and the answer."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from samples import verdict

from patchgate.checks.framework.find_checks import families
from patchgate.inputs.project import Project
from patchgate.model.policy import Kind
from patchgate.model.records import Command, Verdict, Workload
from patchgate.report.junit import render_junit
from patchgate.report.last_lines import answer_lines, count_line, quick_look_of
from patchgate.report.markdown import render_markdown
from patchgate.report.terminal import show_run
from patchgate.report.view import view
from patchgate.runner.run_settings import Limits, Run

WORKLOADS = {
    name: Workload(name=name, path="", dtype="float32") for name in ("stack", "chain", "mlp")
}


def answer(*kinds: Kind, code: int = 0, **given: Any) -> list[str]:
    verdicts = [
        verdict(kind, code="PG501" if kind is Kind.REGRESSED else "PG300") for kind in kinds
    ]
    run = Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}, **given)
    scope, last = answer_lines(run, verdicts, view(verdicts, run.torches), WORKLOADS, code)
    return [*scope, *last]


def test_a_green_run_says_what_was_judged_and_what_was_not():
    assert answer(Kind.PASS) == [
        "judged: 1 workload on h200 (simulated), cpu (codegen); torch 2.9.0",
        "not judged: time and memory on a GPU (`--device cuda`); 2 workloads that only `--nightly` "
        "judges",
        "nothing red, 1 green; exit code 0",
    ]


def test_it_is_said_what_was_kept_from_an_earlier_run():
    verdicts, run = (
        [verdict(Kind.PASS)],
        Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}),
    )
    for kept, count in ((0, 0), (3, 1)):
        lines = answer_lines(
            run, verdicts, view(verdicts, run.torches), WORKLOADS, 0, kept=kept
        ).scope
        assert (
            lines.count(
                "not measured again: 3 results of the same patch, kept in .patchgate/patched"
            )
            == count
        )


@pytest.mark.parametrize(
    ("kinds", "line"),
    [
        ([], "nothing was judged"),
        ([Kind.STALE], "1 cause, 1 red result, 0 green"),
        ([Kind.PASS, Kind.STALE, Kind.STALE], "1 cause, 2 red results, 1 green"),
        (
            [Kind.PASS, Kind.NEW, Kind.WARNING, Kind.INFRA],
            "nothing red, 1 green, 1 not judged, 2 grey notes",
        ),
        ([Kind.PASS, Kind.INFRA], "nothing red, 1 green, 1 not judged"),
    ],
)
def test_the_counts_are_by_cause_and_colour(kinds: list[Kind], line: str) -> None:
    assert count_line(view([verdict(kind) for kind in kinds], ["2.12.1", "2.9.0"])) == line


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"nightly": True}, "not judged: time and memory on a GPU (`--device cuda`)"),
        (
            {"devices": ("cuda", "h200", "cpu")},
            "not judged: 2 workloads that only `--nightly` judges",
        ),
        (
            {"devices": ("cuda", "cpu"), "nightly": True},
            "not judged: h200 (this run has `--device`)",
        ),
        (
            {
                "devices": ("cuda", "h200", "cpu"),
                "workloads": ("stack",),
                "premerge": ("stack", "chain"),
            },
            "not judged: 1 other workload of a whole gate (this run has `--workload`); 1 workload "
            "that only `--nightly` judges",
        ),
        (
            {"devices": ("cuda", "h200", "cpu"), "project": Project(workloads=("stack", "own"))},
            "not judged: 2 workloads that `workloads` of the table leaves out",
        ),
        (
            {
                "devices": ("cuda", "h200", "cpu"),
                "nightly": True,
                "checks": tuple({*families()} - {"latency", "together"}),
            },
            "not judged: 2 other checks: latency, interaction (this run has `--check`)",
        ),
        (
            {
                "devices": ("cuda", "h200", "cpu"),
                "nightly": True,
                "problems": {"2.12.1": "no wheel"},
            },
            "not judged: torch 2.12.1, which could not be installed",
        ),
    ],
)
def test_what_was_not_judged_depends_on_the_run(given, missing):
    assert answer(Kind.PASS, **given)[1] == missing


def test_a_check_of_every_run_was_judged_also_where_others_were_asked_for():
    scope = answer(Kind.PASS, checks=("kernels",))[1]
    others = scope.partition("other checks: ")[2].split(" (this run")[0].split(", ")
    assert ("kernels" in others, "machine" in others, "graph" in others) == (False, False, True)


def test_where_everything_was_judged_nothing_is_said_to_be_missing():
    told = answer(Kind.PASS, nightly=True, devices=("cuda", "h200", "cpu"))
    assert [line.partition(":")[0] for line in told] == [
        "judged",
        "nothing red, 1 green; exit code 0",
    ]


@pytest.mark.parametrize(
    ("kinds", "code", "last"),
    [
        ([Kind.REGRESSED, Kind.REGRESSED], 1, "1 cause, 2 red results, 0 green; exit code 1"),
        ([Kind.PASS, Kind.INFRA], 4, "nothing red, 1 green, 1 not judged; exit code 4"),
        ([], 3, "nothing was judged: no workload, device or release was selected; exit code 3"),
    ],
)
def test_the_last_line_is_the_answer(kinds, code, last):
    assert answer(*kinds, code=code)[-1] == last


NARROWED = {
    "--workload": {"workloads": ("stack",), "premerge": ("stack", "chain", "mlp")},
    "--check": {"checks": ("kernels",)},
    "--device": {"devices": ("cpu",)},
    "--torch": {"project": Project(releases=("2.9.0", "2.12.1"))},
}
WHOLE = Project(releases=("2.9.0",))


def look_at(*kinds: Kind, **given: Any) -> tuple[Run, list[Verdict]]:
    settings: dict[str, Any] = {"project": WHOLE, "premerge": ("stack",)} | given
    return Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}, **settings), [
        verdict(kind) for kind in kinds
    ]


@pytest.mark.parametrize("option", NARROWED)
def test_a_narrowed_run_never_says_that_nothing_is_red(option: str, folder: Path) -> None:
    run, verdicts = look_at(Kind.PASS, **NARROWED[option])
    shown = view(verdicts, run.torches, quick_look_of(run, verdicts))
    last = answer_lines(run, verdicts, shown, WORKLOADS, 0).last[-1]
    for text in (
        last,
        render_markdown("mine", shown),
        render_junit(dict.fromkeys(verdicts, 0.0), shown),
    ):
        assert "QUICK LOOK: no problem in 1 of " in text
        assert "Not a gate result; run: patchgate gate mine.py " in text
        assert "nothing red" not in text


def test_the_whole_gate_that_a_quick_look_names_keeps_the_other_options(folder):
    settings: dict[str, Any] = NARROWED["--workload"] | NARROWED["--check"] | NARROWED["--torch"]
    given = {"requires": ("acme>1",), "strict": True, "limits": Limits(seconds=90, bytes=3 << 30)}
    run, verdicts = look_at(Kind.PASS, **settings, **given)
    look = quick_look_of(run, verdicts)
    assert look
    assert str(look.command) == (
        "patchgate gate mine.py --requires 'acme>1' --strict --time-limit 90 --memory-limit 3072"
        " --folder out"
    )
    # The releases are all there: their interpreters are kept.
    run, verdicts = look_at(Kind.PASS, **NARROWED["--check"])
    assert str(run.whole()) == "patchgate gate mine.py --row 2.9.0=python --folder out"
    assert "--row" not in str(run.whole(["--requires acme"]))
    run, _ = look_at(Kind.PASS, **NARROWED["--check"], seed=7)
    assert str(run.whole()) == "patchgate gate mine.py --row 2.9.0=python"


def test_a_quick_look_says_of_how_much(folder):
    run, verdicts = look_at(Kind.PASS, Kind.INFRA, **NARROWED["--workload"] | NARROWED["--torch"])
    shown = view(verdicts, run.torches, quick_look_of(run, verdicts))
    assert count_line(shown) == (
        "QUICK LOOK: no problem in 1 of 3 workloads on 1 of 2 releases, 1 not judged, without the checks"
        " tokens, ranks. Not a gate result; run: patchgate gate mine.py --folder out"
    )


def test_a_quick_look_at_a_workload_names_the_checks_that_it_leaves_out(folder):
    run, verdicts = look_at(
        Kind.PASS, workloads=("pointwise",), premerge=("pointwise", "residual_chain")
    )
    look = quick_look_of(run, verdicts)
    assert look
    assert {"cache", "triton_cache"} <= {*look.without}
    assert {"kernels", "parity", "effects", "latency"}.isdisjoint(look.without)
    assert f"releases, without the checks {', '.join(look.without[:4])}" in count_line(
        view(verdicts, run.torches, look)
    )
    run, verdicts = look_at(Kind.PASS, **NARROWED["--check"])
    look = quick_look_of(run, verdicts)
    assert look
    assert look.without == ()


def test_a_quick_look_that_needs_no_workload_counts_none(folder):
    run, verdicts = look_at(Kind.PASS, **NARROWED["--torch"])
    look = quick_look_of(run, verdicts)
    assert look
    shown = view(verdicts, run.torches, replace(look, workloads=(0, 13)))
    assert count_line(shown).startswith("QUICK LOOK: no problem on 1 of 2 releases.")


def test_a_whole_run_is_no_quick_look_and_a_red_one_shows_its_problems():
    run, verdicts = look_at(Kind.PASS)
    assert quick_look_of(run, verdicts) is None
    named = look_at(Kind.PASS, workloads=("stack", "chain"))
    assert quick_look_of(*named) is None
    run, verdicts = look_at(Kind.REGRESSED, **NARROWED["--check"])
    shown = view(verdicts, run.torches, quick_look_of(run, verdicts))
    assert count_line(shown) == "1 cause, 1 red result, 0 green"
    last = answer_lines(run, verdicts, shown, WORKLOADS, 1).last
    assert last[0].startswith("QUICK LOOK: judged in 1 of 1 workloads by 1 of ")
    assert "; all of it: " in last[0]
    assert last[-1] == "1 cause, 1 red result, 0 green; exit code 1"
    assert "quick look" not in render_junit(dict.fromkeys(verdicts, 0.0), shown)


@pytest.mark.parametrize(
    ("code", "item", "actual", "doubt", "missing"),
    [
        (
            "PG230",
            "acme",
            "a stand-in; the patch uses acme.limit",
            "a stand-in was used for acme, which is missing (PG230)",
            "acme (PG230)",
        ),
        (
            "PG228",
            "running the patch",
            "StandsIn: not installed: acme",
            "the patch was not judged: it needs what is not installed (PG228)",
            "StandsIn: not installed: acme (PG228)",
        ),
    ],
)
def test_what_is_missing_is_named_at_the_end(code, item, actual, doubt, missing, folder):
    kind = Kind.ASSUMED if code == "PG230" else Kind.UNMEASURED
    commands = (Command(name="gate", arguments=("mine.py", "--requires acme")),)
    found = verdict(kind, code, "gate", subject=item, actual=actual, commands=commands)
    found = replace(found, item=item, fact="")
    for options, begins in (({}, "nothing red, but "), (NARROWED["--torch"], "QUICK LOOK: ")):
        run, verdicts = look_at(Kind.PASS, **options)
        verdicts += [found, replace(found, case=replace(found.case, torch="2.12.1"))]
        shown = view(verdicts, run.torches, quick_look_of(run, verdicts))
        last = answer_lines(run, verdicts, shown, WORKLOADS, 0).last
        assert f"missing: {missing}; next: patchgate gate mine.py --requires acme" in last
        assert last[-1].startswith(f"{begins}{doubt}")
        assert last[-1].endswith(" mine.py --folder out --requires acme") is bool(options)


@pytest.mark.parametrize(
    ("kinds", "so_far"),
    [([], "nothing red"), ([Kind.STALE], "1 problem"), ([Kind.PASS], "nothing red")],
)
def test_an_interrupted_run_says_so_in_one_line(kinds, so_far):
    stop = partial(verdict, Kind.STOPPED, code="PG907", brief="SIGTERM")
    stopped = [stop(subject=f"w{n}.cpu runs") for n in range(166)]
    run, verdicts = (
        Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}),
        [*map(verdict, kinds), *stopped],
    )
    shown = replace(view(verdicts, run.torches), done=14)
    line = f"Interrupted after 14 of 180 checks ({so_far} so far). Run the same command to resume."
    ending = answer_lines(run, verdicts, shown, WORKLOADS, 4)
    assert ending.last == [f"{line} Exit code 4."]
    assert ending.scope[1].startswith("not judged: 166 checks (SIGTERM); ")
    file = io.StringIO()
    show_run(Console(file=file, width=100), "mine", shown, ending)
    assert "PG907" not in file.getvalue()
    assert len(file.getvalue().splitlines()) < (20 if Kind.STALE in kinds else 4)


def test_a_patch_that_changes_nothing_is_no_pass():
    effects = verdict(
        Kind.NOTE, "PG211", "gate", subject="effects", actual="nothing", applies=False
    )
    idle = verdict(Kind.WARNING, "PG221", "gate", subject="changes", advice="call it at import")
    verdicts, file = [effects, idle], io.StringIO()
    shown = view(verdicts, ["2.9.0"])
    assert count_line(shown).startswith("nothing red, as the patch changes nothing here")
    show_run(Console(file=file, width=100), "mine", shown)
    assert "next: call it at import" in file.getvalue()
    run = Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}, workloads=("stack",))
    narrowed = view(verdicts, ["2.9.0"], quick_look_of(run, verdicts))
    assert count_line(narrowed).startswith("QUICK LOOK: the patch changes nothing; judged on ")
    applied = view([replace(effects, applies=True), idle], ["2.9.0"])
    assert count_line(applied).startswith("nothing red, 1 green")


@pytest.mark.parametrize("narrowed", [{}, {"checks": ("parity",)}])
def test_results_without_a_judgement_have_no_good_news(narrowed: dict[str, Any]) -> None:
    """As a comment prints them, of a folder that somebody emptied."""
    run = Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}, **narrowed)
    assert count_line(view([], run.torches, quick_look_of(run, []))) == "nothing was judged"


def test_a_workload_that_fails_without_the_patch_too_is_none_that_was_judged() -> None:
    assert answer(Kind.ASSUMED)[:2] == [
        "judged: 0 workloads on h200 (simulated), cpu (codegen); torch 2.9.0",
        "not judged: time and memory on a GPU (`--device cuda`); stack, which cannot run here with "
        "or without the patch; 2 workloads that only `--nightly` judges",
    ]
    run, verdicts = look_at(Kind.ASSUMED, **NARROWED["--workload"])
    shown = view(verdicts, run.torches, quick_look_of(run, verdicts))
    assert count_line(shown).startswith(
        "QUICK LOOK: no problem in 0 of 3 workloads (1 cannot run here) on 1 of 1 releases,"
    )


def _unacted(**given: Any) -> Verdict:
    return verdict(Kind.WARNING, "PG518", "parity", subject="stack.cpu", **given)


def test_a_patch_that_acted_nowhere_is_named_in_the_last_lines():
    same = verdict(Kind.PASS, "PG300", before="1", after="1")
    shown = view([_unacted(), same], ["2.9.0"])
    assert count_line(shown) == (
        "nothing red, but the patch acted in no judged workload (PG518), 1 green, 1 grey note"
    )
    ran = verdict(Kind.PASS, "PG514", "parity", subject="samples of gelu")
    assert "no judged workload, only for the samples (PG518)" in count_line(
        view([_unacted(), ran], ["2.9.0"])
    )
    run = Run(folder="out", patch="mine.py", rows={"2.9.0": "python"}, workloads=("stack",))
    verdicts = [_unacted(), same]
    narrowed = view(verdicts, ["2.9.0"], quick_look_of(replace(run, checks=("parity",)), verdicts))
    assert count_line(narrowed).startswith(
        "QUICK LOOK: the patch acted in no judged workload (PG518); judged in 1 of 1 workloads by "
    )


@pytest.mark.parametrize(
    "other",
    [
        verdict(Kind.PASS, "PG503", "parity", subject="chain.cpu bits"),
        verdict(Kind.PASS, "PG300", before="1", after="2"),
        verdict(Kind.FIRST, "PG303", subject="stack.h200 changes"),
        verdict(Kind.REGRESSED, "PG701", "cache"),
    ],
)
def test_a_patch_that_acted_somewhere_is_not_said_to_act_nowhere(other):
    assert "acted in no" not in count_line(view([_unacted(), other], ["2.9.0"]))
    assert "acted in no" not in count_line(view([other], ["2.9.0"]))
