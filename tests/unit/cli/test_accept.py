"""`patchgate accept` as it is typed."""

import shutil

import pytest
from click.testing import CliRunner
from expecttest import assert_expected_inline

from patchgate.cli.main import cli
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Kind, Observation, Verdict
from patchgate.runner.run_settings import Run, save_run, save_verdicts


@pytest.fixture
def observed(folder, monkeypatch):
    """A run that observed one case, in a place where a person is."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    project = Project(root=str(folder), golden="golden")
    run = Run(
        folder=str(folder / "out"), patch="mine.py", project=project, rows={"2.11.0": "python"}
    )
    save_run(run)
    run.store.save(
        Observation(case=Case(torch="2.11.0", device="h200", workload="stack"), facts={"loads": 6})
    )
    return folder


def accept(*arguments, typed=None):
    return CliRunner().invoke(cli, ["accept", "--folder", "out", *arguments], input=typed)


def test_every_fact_is_shown_before_the_reason_is_asked_for(observed):
    result = accept()
    assert_expected_inline(
        result.output,
        """\
golden/stack.h200.txt
  unpatched  loads  2.11.0  6
""",
    )
    assert isinstance(result.exception, UsageError)
    assert result.exception.where == "--reason"
    assert not (observed / "golden").exists()


def test_with_a_reason_golden_and_its_history_are_written(observed):
    result = accept("--reason", "first", "--yes")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "1 facts in 1 files written below golden; commit them"
    assert {path.name for path in (observed / "golden").iterdir()} == {
        "stack.h200.txt",
        "HISTORY.md",
    }


def test_results_that_were_copied_here_change_no_golden_elsewhere(
    observed, monkeypatch, tmp_path_factory
):
    here = tmp_path_factory.mktemp("here")
    shutil.copytree(observed / "out", here / "out")
    (here / "patchgate.toml").write_text("golden = 'accepted'\n")
    monkeypatch.chdir(here)
    assert accept("--reason", "first", "--yes").exception.what == "results of another project"
    assert not (observed / "golden").exists()
    shutil.rmtree(observed)  # as of results of another machine
    assert accept("--reason", "first", "--yes").exit_code == 0
    assert (here / "accepted").is_dir()


@pytest.mark.parametrize(("typed", "written"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_person_is_asked_before_anything_is_written(observed, monkeypatch, typed, written):
    monkeypatch.setattr("patchgate.cli.accept.has_terminal", lambda: True)
    assert "write 1 facts in 1 files? [y/N]" in accept("--reason", "first", typed=typed).output
    assert (observed / "golden").exists() is written


def test_where_nobody_can_be_asked_nothing_is_written_without_yes(observed):
    result = accept("--reason", "first")
    assert (result.exception.where, (observed / "golden").exists()) == ("--yes", False)


def test_accepting_twice_changes_nothing_the_second_time(observed):
    accept("--reason", "first", "--yes")
    assert accept("--reason", "second").output == "golden already says what the last run observed\n"


@pytest.mark.parametrize("name", ["CI", "PYTEST_XDIST_WORKER"])
def test_where_nobody_reads_nothing_is_shown_or_written(observed, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    result = accept("--reason", "first")
    assert (result.output, result.exception.where) == ("", f"${name}")
    assert not (observed / "golden").exists()


@pytest.mark.parametrize(("kind", "refused"), [(Kind.REGRESSED, True), (Kind.PASS, False)])
def test_a_patch_that_does_not_run_has_no_facts_to_accept(observed, kind, refused):
    actual = "SyntaxError: '{' was never closed"
    case = Case(torch="2.11.0", patch="mine")
    verdict = Verdict(
        code="PG210",
        kind=kind,
        check="gate",
        case=case,
        item="run",
        actual=actual,
        where="mine.py:3",
    )
    save_verdicts(observed / "out", [verdict])
    result = accept("--reason", "first", "--yes")
    assert (observed / "golden").exists() is not refused
    if refused:
        assert (result.exception.where, result.exception.got) == ("mine.py:3", actual)
