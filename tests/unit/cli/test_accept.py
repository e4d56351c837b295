"""`patchgate accept` as it is typed."""

import json
import os
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner
from expecttest import assert_expected_inline

from patchgate.cli.main import cli
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Observation, Verdict
from patchgate.runner.cache_keys import text_digest
from patchgate.runner.run_settings import Run, load_run, save_run, save_verdicts


@pytest.fixture
def observed(folder, monkeypatch):
    """A run that observed one case, in a place where a person is."""
    for name in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    project = Project(root=str(folder), golden="golden", releases=("2.11.0",))
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
    assert result.output.splitlines()[-1] == "1 fact in 1 file written below golden; commit them"
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"workload": "../../elsewhere"}, "`case.workload`: not a name"),
        ({"workload": ".."}, "`case.workload`: not a name"),
        ({"device": "a/b"}, "`case.device`: not a name"),
        ({"patch": "x]\n[unpatched"}, "`case.patch`: not a name"),
        ({"torch": "2.0.0..9.9.9"}, "`case.torch`: not a version"),
        ({"fact": "loads\n[unpatched]\nx"}, "`facts`: not the name of a fact"),
        ({"fact": "loads 2.6.0 7"}, "`facts`: not the name of a fact"),
        ({"fact": "loads\x1b]0;"}, "`facts`: not the name of a fact"),
    ],
)
def test_results_that_somebody_made_by_hand_name_no_file_and_no_line(observed, change, said):
    (path,) = (observed / "out" / "observations").iterdir()
    made = json.loads(path.read_text())
    made["facts"] = {change.pop("fact", "loads"): 6}
    made["case"] |= change
    path.write_text(json.dumps(made))
    error = accept("--reason", "first", "--yes").exception
    assert isinstance(error, UsageError)
    assert (error.where, said in error.got) == (str(path), True), error
    assert not (observed / "golden").exists()


def test_results_do_not_say_that_the_project_is_a_folder_around_it(observed, monkeypatch):
    run = load_run(observed / "out" / "run.json")
    save_run(replace(run, project=replace(run.project, root=str(observed.parent))))
    error = accept("--reason", "first", "--yes").exception
    assert error.what == "results of another project"
    (observed / "inner").mkdir()
    (observed / "patchgate.toml").write_text("golden = 'golden'\n")
    save_run(run)
    monkeypatch.chdir(observed / "inner")  # of the project itself it is no matter where one stands
    words = ["accept", "--folder", "../out", "--reason", "first", "--yes"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert (observed / "golden").is_dir()


@pytest.mark.parametrize("edit", ["x = 2\n", "x = 1\n"])
def test_facts_of_a_patch_that_was_edited_since_are_not_accepted(observed, edit):
    patch = observed / "mine.py"
    patch.write_text("x = 1\n")
    run = load_run(observed / "out" / "run.json")
    save_run(replace(run, patch=str(patch), digest=text_digest(load_patch(patch))))
    patch.write_text(edit)
    result = accept("--reason", "first", "--yes")
    if edit == "x = 1\n":
        assert result.exit_code == 0
    else:
        assert result.exception.what == "the patch was edited after it was judged"
        assert not (observed / "golden").exists()


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _link(path):
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def _large(path):
    with open(path, "r+b") as file:
        file.truncate(65 << 20)


@pytest.mark.parametrize("command", ["accept", "report", "comment"])
@pytest.mark.parametrize("damage", [_pipe, _link, _large])
@pytest.mark.parametrize("name", ["run.json", "verdicts.json"])
def test_results_that_are_no_plain_files_are_refused(observed, command, damage, name):
    (observed / "mine.py").write_text("x = 1\n")
    save_verdicts(observed / "out", [])
    damage(observed / "out" / name)
    folder = ["out"] if command == "comment" else ["--folder", "out"]
    result = CliRunner().invoke(cli, [command, *folder])
    assert isinstance(result.exception, UsageError), result.exception


@pytest.mark.parametrize(("typed", "written"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_person_is_asked_before_anything_is_written(observed, monkeypatch, typed, written):
    monkeypatch.setattr("patchgate.cli.accept.has_terminal", lambda: True)
    assert "write 1 fact in 1 file? [y/N]" in accept("--reason", "first", typed=typed).output
    assert (observed / "golden").exists() is written


def test_where_nobody_can_be_asked_nothing_is_written_without_yes(observed):
    result = accept("--reason", "first")
    assert (result.exception.where, (observed / "golden").exists()) == ("--yes", False)


@pytest.mark.parametrize(
    ("kinds", "given", "said"),
    [
        ([Kind.PASS], {}, ""),
        ([Kind.REGRESSED], {}, "mine.py: the run is red (PG301); only facts stop being red\n"),
        (
            [Kind.PASS],
            {"releases": ("2.11.0", "2.12.1")},
            "mine.py: a quick look, judged on 1 of 2 releases; all else stays as it is recorded\n",
        ),
    ],
)
def test_what_else_a_person_accepts_is_said_in_a_line(observed, kinds, given, said):
    run = load_run(observed / "out" / "run.json")
    save_run(replace(run, project=replace(run.project, **given)))
    case = Case(torch="2.11.0", device="h200", workload="stack", patch="mine")
    codes = {Kind.REGRESSED: "PG301", Kind.PASS: "PG300"}
    found = [
        Verdict(code=codes[kind], kind=kind, check="kernels", case=case, item="loads")
        for kind in kinds
    ]
    save_verdicts(observed / "out", found)
    printed = accept("--reason", "first", "--yes").output
    assert printed.split("6\n")[1].partition("1 fact in")[0] == said


def test_facts_that_no_run_compares_are_not_accepted(observed):
    store = load_run(observed / "out" / "run.json").store
    for workload in ("gradient_layouts_training", "pointwise"):
        case = Case(torch="2.11.0", device="cpu", workload=workload)
        store.save(Observation(case=case, facts={"loads": 6}))
    accept("--reason", "first", "--yes")
    written = {path.name for path in (observed / "golden").iterdir()}
    assert written == {"stack.h200.txt", "pointwise.cpu.txt", "HISTORY.md"}


def test_accepting_twice_changes_nothing_the_second_time(observed):
    accept("--reason", "first", "--yes")
    assert accept("--reason", "second").output == "golden already says what the last run observed\n"


def test_where_nothing_was_observed_golden_says_nothing_about_it(observed):
    shutil.rmtree(load_run(observed / "out" / "run.json").store.folder)
    result = accept("--reason", "first", "--yes")
    assert isinstance(result.exception, UsageError)
    assert result.exception.what == "the last run observed nothing: no facts to accept"
    assert not (observed / "golden").exists()


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


def test_a_run_that_was_stopped_is_not_accepted(observed):
    case = Case(torch="2.11.0", device="h200", workload="stack", patch="mine")
    stopped = [
        Verdict(code="PG907", kind=Kind.STOPPED, check="kernels", case=case, item=f"x{number}")
        for number in range(3)
    ]
    save_verdicts(observed / "out", stopped)
    refused = accept("--reason", "first", "--yes").exception
    assert refused.what == "the run stopped after 0 of 3 checks"
    assert str(refused.next).startswith("patchgate gate ")
    assert not (observed / "golden").exists()


def test_it_is_said_if_the_patch_changed_nothing(observed):
    case = Case(torch="2.11.0", device="cpu", workload="stack", patch="mine")
    idle = Verdict(code="PG518", kind=Kind.WARNING, check="parity", case=case, item="stack.cpu")
    save_verdicts(observed / "out", [idle])
    printed = accept("--reason", "first", "--yes").output
    assert "mine.py: the patch changed nothing that was judged\n" in printed
