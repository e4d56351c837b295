"""A shard that is judged elsewhere leaves here what it would have left here: results, paths, and no
patch.

No cluster is started: those tests are in tests/ray (`nox -s tests_ray`).
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Observation, Verdict
from patchgate.runner.journal import Journal
from patchgate.runner.run_settings import Run, load_verdicts, save_run, save_verdicts
from patchgate.runner.torch_environments import Environments
from patchgate.runs import content_key, ray
from patchgate.runs import sweep as module
from patchgate.runs.history.store import History
from patchgate.runs.ray import LOCAL, Task, files_at, run_task, sweep_on_cluster, unpack
from patchgate.runs.sweep import Job, Sweep

PYTHON = __file__  # a file that is there
TEMPLATE = Run(folder="", patch="", rows={}, devices=("h200",))


@pytest.fixture
def patches(folder):
    (folder / "mine" / "data").mkdir(parents=True)
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    (folder / "mine" / "data" / "table.txt").write_text("7")
    (folder / "other.py").write_text("x = 2\n")
    (folder / "other.toml").write_text('title = "Other"')
    return ["mine", "other.py"]


@pytest.fixture
def judged(folder, monkeypatch):
    """Return the runs that were launched, instead of the gate; each verdict names the patch's file
    and the results' folder.
    """
    launched = []
    monkeypatch.setattr(module, "environment_digest", lambda python: python)
    monkeypatch.setattr(content_key, "input_digests", lambda: ["digest"])
    monkeypatch.setattr(ray, "input_digests", lambda: ["digest"])

    def judge_patch(run, patch, *, workers):
        (torch,) = run.rows
        launched.append((run.patch, run.rows[torch]))
        save_run(run)
        Journal(Path(run.folder)).begin(content_key.content_key(run, patch, run.rows))
        case = Case(torch=torch, device="h200", workload="stack")
        run.store.save(Observation(case=case, facts={"loads.max": 2}))
        told = {
            "code": "PG300",
            "kind": Kind.PASS,
            "check": "kernels",
            "case": case,
            "item": case.name,
        }
        verdict = Verdict(**told, where=f"{run.patch}:1", actual=f"{run.shared_cache}/code")
        save_verdicts(Path(run.folder), [verdict])
        return [verdict]

    monkeypatch.setattr(module, "judge_patch", judge_patch)
    return launched


def task(patches, **rest):
    sent = {name: files_at(Path(name)) for name in patches}
    return Task(
        torch="2.11.0",
        patches=sent,
        folder="sweep",
        digests=["digest"],
        template=replace(TEMPLATE, **rest),
        python=PYTHON,
    )


def test_a_folder_travels_whole_and_a_file_with_its_manifest(patches):
    assert files_at(Path("mine")) == {"mine/data/table.txt": b"7", "mine/patch.py": b"x = 1\n"}
    assert list(files_at(Path("other.py"))) == ["other.py", "other.toml"]


def test_what_was_found_is_here_under_our_names(patches, judged, folder):
    result = run_task(task(patches))
    unpack(result, folder / "sweep")
    (first,), (second,) = (
        load_verdicts(folder / "sweep" / "jobs" / f"{name}.2.11.0") for name in ("mine", "other")
    )
    assert (first.where, first.actual, second.where) == (
        "mine:1",
        "sweep/shared_cache/code",
        "other.py:1",
    )
    assert [each.seconds is not None for each in result.results] == [True, True]
    assert not [
        path
        for path in (folder / "sweep").rglob("*")
        if path.name in ("patches", "history.sqlite", "patch.py")
    ]
    assert json.loads((folder / "sweep/jobs/mine.2.11.0/run.json").read_text())["patch"] == "mine"


def test_every_workload_is_judged_over_there_too(patches, judged, folder):
    unpack(run_task(task(patches[:1], nightly=True)), folder / "sweep")
    assert json.loads((folder / "sweep/jobs/mine.2.11.0/run.json").read_text())["nightly"]


def test_the_row_is_ours_where_it_is_there_too(patches, judged):
    run_task(task(patches[:1]))
    assert [python for _, python in judged] == [PYTHON]
    assert not Path(judged[0][0]).exists()


@pytest.fixture
def sweep(folder):
    history = History(folder / "sweep" / "history.sqlite")
    yield Sweep(
        folder / "sweep", Environments({}, failed={"2.11.0": "no wheel"}), history, print, TEMPLATE
    )
    history.close()


def test_a_torch_without_an_environment_is_not_sent(sweep, patches):
    (result,) = sweep_on_cluster("nowhere", sweep, [Job(torch="2.11.0", patch=Path("other.py"))])
    assert [(verdict.code, verdict.actual) for verdict in result.verdicts] == [
        ("PG901", "no wheel")
    ]


def test_without_ray_the_command_to_type_is_reported(sweep, patches, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError) as error:
        list(sweep_on_cluster(LOCAL, sweep, [Job(torch="2.12.1", patch=Path("other.py"))]))
    assert "pip install 'patchgate[ray]'" in str(error.value)


def test_a_job_done_elsewhere_is_known_here(patches, judged, folder):
    unpack(run_task(task(patches[:1])), folder / "sweep")
    history = History(folder / "sweep" / "history.sqlite")
    sweep = Sweep(folder / "sweep", Environments({"2.11.0": PYTHON}), history, print, TEMPLATE)
    assert sweep.judged_before(Job(torch="2.11.0", patch=folder / "mine")) is not None
    assert sweep.judged_before(Job(torch="2.11.0", patch=folder / "other.py")) is None
    history.close()


def test_another_patchgate_judges_nothing(patches, judged):
    other = Task(torch="2.11.0", patches={}, folder="sweep", digests=["other"], template=TEMPLATE)
    assert run_task(other).problem.startswith("a node has another version of patchgate")
    assert judged == []
