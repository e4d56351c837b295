"""A sweep judges each row and patch once for the same content, and what it could not judge
again.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.inputs.project import find_project
from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Observation, Verdict
from patchgate.runner.files_read import note_read
from patchgate.runner.journal import Journal
from patchgate.runner.results_folder import put_aside
from patchgate.runner.run_settings import NAME, Run, load_run, save_run, save_verdicts
from patchgate.runner.torch_environments import Environments
from patchgate.runs import content_key
from patchgate.runs import sweep as module
from patchgate.runs.content_key import project_files
from patchgate.runs.history.store import History
from patchgate.runs.sweep import Job, Sweep

TEMPLATE = Run(folder="", patch="", rows={}, devices=("h200",))


@pytest.fixture
def made(folder, monkeypatch):
    """Makes a sweep whose jobs are judged by `answer` instead of the gate; it tells what was
    launched.
    """
    launched, told = [], []
    (folder / "mine.py").write_text("x = 1\n")
    monkeypatch.setattr(module, "environment_digest", lambda python: python)
    monkeypatch.setattr(content_key, "files_digest", lambda path: "material")

    def make(answer=lambda torch: Kind.PASS):
        def judge_patch(run, patch, *, workers):
            (torch,) = run.rows
            launched.append(torch)
            put_aside(Path(run.folder))
            save_run(run)
            Journal(Path(run.folder)).begin(content_key.content_key(run, patch, run.rows))
            case = Case(torch=torch, device="h200", workload="stack")
            run.store.save(Observation(case=case, facts={"loads.max": 2}))
            verdict = Verdict(
                code="PG300", kind=answer(torch), check="kernels", case=case, item=case.name
            )
            save_verdicts(folder / "sweep" / "jobs" / f"mine.{torch}", [verdict])
            return [verdict]

        monkeypatch.setattr(module, "judge_patch", judge_patch)
        environments = Environments(
            {"2.11.0": "python11", "2.12.1": "python12"}, failed={"2.13.0": "no wheel"}
        )
        history = History(folder / "sweep" / "history.sqlite")
        return Sweep(folder / "sweep", environments, history, told.append, TEMPLATE)

    make.launched, make.told = launched, told
    make.jobs = [
        Job(torch=torch, patch=folder / "mine.py") for torch in ("2.11.0", "2.12.1", "2.13.0")
    ]
    return make


def test_what_was_judged_is_not_judged_again_and_gives_the_same(made):
    first, second = (made().judge_all(made.jobs, run, run) for run in ("r1", "r2"))
    assert first == second
    assert made.launched == ["2.11.0", "2.12.1"]
    assert made().history.costs().keys() == {("mine", "2.11.0"), ("mine", "2.12.1")}
    assert made().history.counts() == {
        "run": 2,
        "content": 4,
        "judged": 6,
        "observed": 4,
        "cost": 2,
    }


def test_releases_that_differ_in_their_last_part_are_known_each_for_itself(made):
    jobs = [Job(torch=torch, patch=made.jobs[0].patch) for torch in ("2.12.0", "2.12.1")]
    for run in ("r1", "r2"):
        sweep = made()
        sweep.environments.rows["2.12.0"] = "python120"
        sweep.judge_all(jobs, run, run)
    assert made.launched == ["2.12.0", "2.12.1"]


def test_a_row_without_environment_is_a_verdict_and_the_others_go_on(made):
    verdicts = made().judge_all(made.jobs[::-1], "r1", "r1")
    assert [(v.torch, v.code) for v in verdicts] == [
        ("2.13.0", "PG901"),
        ("2.12.1", "PG300"),
        ("2.11.0", "PG300"),
    ]
    assert made.told[0] == "[1/3] mine on torch 2.13.0: no environment, 0 red of 1"


def test_what_the_machine_kept_from_judging_is_tried_again(made):
    made(lambda torch: Kind.INFRA if torch == "2.11.0" else Kind.PASS).judge_all(
        made.jobs, "r1", "r1"
    )
    made().judge_all(made.jobs, "r2", "r2")
    assert made.launched == ["2.11.0", "2.12.1", "2.11.0"]


def test_another_content_is_judged_anew(made, folder):
    made().judge_all(made.jobs[:1], "r1", "r1")
    (folder / "mine.py").write_text("x = 2\n")
    made().judge_all(made.jobs[:1], "r2", "r2")
    assert made.launched == ["2.11.0", "2.11.0"]


def test_a_file_that_the_patch_has_read_is_content_too(made, folder):
    table = folder / "table.json"
    for content in ("{}", "{}", "[]"):
        if not table.exists() or table.read_text() != content:
            table.write_text(content)
        sweep = made()
        sweep.judge_all(made.jobs[:1], "r", "r")
        if content == "{}" and len(made.launched) == 1:
            note_read(sweep.folder_of(made.jobs[0]), [str(table)])
    assert made.launched == ["2.11.0", "2.11.0"]


def test_every_workload_is_another_job_than_those_of_pre_merge(made):
    for nightly in (False, True, True):
        sweep = made()
        sweep.template = replace(TEMPLATE, nightly=nightly)
        sweep.judge_all(made.jobs[:1], "r", "r")
    assert made.launched == ["2.11.0", "2.11.0"]
    assert load_run(made().folder_of(made.jobs[0]) / NAME).nightly


def test_a_job_that_was_killed_is_the_only_one_that_is_done_again(made):
    def killed(torch):
        if torch == "2.12.1" and made.launched.count("2.12.1") == 1:
            raise KeyboardInterrupt
        return Kind.PASS

    with pytest.raises(KeyboardInterrupt):
        made(killed).judge_all(made.jobs, "r1", "r1")
    assert len(made(killed).judge_all(made.jobs, "r2", "r2")) == 3
    assert made.launched == ["2.11.0", "2.12.1", "2.12.1"]


def test_the_results_of_a_sweep_are_what_each_job_left(made):
    sweep = made()
    sweep.judge_all(made.jobs, "r1", "r1")
    told = [
        (result.patch.id, result.torches, [v.code for v in result.verdicts])
        for result in sweep.results()
    ]
    assert told == [
        ("mine", ("2.11.0",), ["PG300"]),
        ("mine", ("2.12.1",), ["PG300"]),
        ("mine", ("2.13.0",), ["PG901"]),
    ]


def test_the_files_of_a_project_are_those_of_its_devices_too(folder):
    (folder / "patchgate.toml").write_text("devices = ['devices/npu.toml']\n")
    (folder / "devices").mkdir()
    (folder / "devices" / "npu.toml").write_text(
        'kind = "plugin"\nbackend = "npu"\nplugin = "../device.py"\n'
    )
    (folder / "device.py").write_text("def register(): ...\n")
    assert project_files(find_project(folder)).keys() == {
        "patchgate.toml",
        "devices/npu.toml",
        "device.py",
    }
    (folder / "devices" / "npu.toml").write_text(
        'kind = "plugin"\nbackend = "npu"\nplugin = "../../device.py"\n'
    )
    with pytest.raises(UsageError, match=r"npu\.toml: outside of the project"):
        project_files(find_project(folder))
