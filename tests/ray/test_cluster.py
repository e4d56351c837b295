"""A sweep over a cluster of two nodes: every shard once, and again where its worker was killed on
the way.

What judges is a stand-in that needs no torch; `test_real_torch.py` judges for real.
"""

import os
import signal
from pathlib import Path

import pytest
from two_nodes import two_nodes

from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.runner.run_settings import Run
from patchgate.runner.torch_environments import Environments
from patchgate.runs import ray as sweep_ray
from patchgate.runs.history.store import History
from patchgate.runs.ray import TaskResult, sweep_on_cluster
from patchgate.runs.sweep import Job, JobResult, Sweep

pytestmark = pytest.mark.xdist_group("ray")
TORCHES = ("2.11.0", "2.12.1")
TEMPLATE = Run(folder="", patch="", rows={}, devices=("h200",))


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as address:
        yield address


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder that is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sweep(folder):
    history = History(folder / "sweep" / "history.sqlite")
    yield Sweep(folder / "sweep", Environments({}), history, lambda line: None, TEMPLATE, workers=1)
    history.close()


@pytest.fixture
def jobs(folder):
    for name in "ab":
        (folder / f"{name}.py").write_text("")
    return [Job(torch=torch, patch=folder / f"{name}.py") for torch in TORCHES for name in "ab"]


def stand_in(doom, deaths):
    """A judge without torch, whose worker is killed on 2.12.1 as often as `deaths` says; `doom`
    counts them.

    Defined inside, so that it travels by value: a worker cannot import this file.
    """

    def judge(task):
        if task.torch == "2.12.1" and len(list(doom.iterdir())) < deaths:
            (doom / str(os.getpid())).write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        told = {"code": "PG901", "kind": Kind.INFRA, "check": "machine", "item": "environment"}
        results = [
            JobResult(
                job=Job(torch=task.torch, patch=Path(name)),
                verdicts=[Verdict(**told, case=Case(torch=task.torch), actual=name)],
                has_results=False,
            )
            for name in task.patches
        ]
        return TaskResult(content=b"PK\5\6" + bytes(18), results=tuple(results))

    return judge


def told(done):
    return sorted((one.job.torch, one.verdicts[0].actual) for one in done)


@pytest.mark.parametrize("deaths", [0, 1])
def test_every_job_comes_back_once_also_when_a_worker_is_killed(
    cluster, sweep, jobs, folder, deaths
):
    (folder / "doom").mkdir()
    done = list(sweep_on_cluster(cluster, sweep, jobs, stand_in(folder / "doom", deaths)))
    assert told(done) == [(job.torch, job.patch.name) for job in jobs]
    assert len(list((folder / "doom").iterdir())) == deaths


def test_a_shard_whose_workers_all_die_is_the_machine_s_trouble(
    cluster, sweep, jobs, folder, monkeypatch
):
    monkeypatch.setattr(sweep_ray, "RETRIES", 1)
    (folder / "doom").mkdir()
    done = list(sweep_on_cluster(cluster, sweep, jobs, stand_in(folder / "doom", 99)))
    assert told(done)[:2] == [("2.11.0", "a.py"), ("2.11.0", "b.py")]
    lost = [verdict for one in done if one.job.torch == "2.12.1" for verdict in one.verdicts]
    assert {(verdict.code, verdict.kind) for verdict in lost} == {("PG901", Kind.INFRA)}
    assert lost[0].actual.startswith("its worker was lost 2 times")


def test_what_no_node_has_is_reported_instead_of_waited_for(cluster, sweep, jobs):
    sweep.workers = 64
    with pytest.raises(UsageError) as error:
        list(sweep_on_cluster(cluster, sweep, jobs, stand_in(None, 0)))
    assert str(error.value).splitlines()[0] == "--on: no node has 64 CPUs"


def test_a_worker_that_cannot_judge_ends_the_sweep(cluster, sweep, jobs):
    with pytest.raises(UsageError) as error:
        list(
            sweep_on_cluster(
                cluster, sweep, jobs, lambda task: TaskResult(problem="another patchgate")
            )
        )
    assert "another patchgate" in str(error.value)
