"""A sweep over two nodes gives the verdicts of a local one, also when a worker is killed in the
middle of judging.
"""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from two_nodes import two_nodes

from patchgate.model.paths import ROOT
from patchgate.runner.run_settings import Run
from patchgate.runner.torch_environments import Environments
from patchgate.runs.history.store import History
from patchgate.runs.ray import run_task, sweep_on_cluster
from patchgate.runs.sweep import Job, Sweep

pytestmark = pytest.mark.cluster
PATCHES = [ROOT / "fixtures" / "patches" / name for name in ("harmless",)]
ROWS = {
    name.removeprefix("PATCHGATE_ROW_").replace("_", "."): python
    for name, python in os.environ.items()
    if name.startswith("PATCHGATE_ROW_")
}


def doomed(folder, torch):
    """Judges for real, but the first worker on `torch` is killed ten seconds after it began."""

    def judge(task):
        if task.torch == torch and not (folder / "killed").exists():
            (folder / "killed").write_text("")
            threading.Timer(10, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return run_task(task)

    return judge


def said(verdicts, folder):
    """Verdicts as text, with the folder of results out of them."""
    return sorted(str(replace(verdict)).replace(str(folder), "") for verdict in verdicts)


@pytest.fixture
def sweep(tmp_path):
    def make(name):
        history = History(tmp_path / name / "history.sqlite")
        template = Run(folder="", patch="", rows={}, devices=("h200",), workloads=("graph_break",))
        return Sweep(tmp_path / name, Environments(dict(ROWS)), history, print, template, workers=1)

    return make


def test_two_nodes_say_what_one_machine_says(sweep, tmp_path):
    jobs = [Job(torch=torch, patch=patch) for patch in PATCHES for torch in ROWS]
    local, spread = sweep("local"), sweep("spread")
    here = local.judge_all(jobs, "r", "r")
    judge = doomed(tmp_path, max(ROWS))
    with two_nodes() as cluster:
        there = spread.record(sweep_on_cluster(cluster, spread, jobs, judge), len(jobs), "r", "r")
    assert (tmp_path / "killed").exists()
    assert here
    assert said(here, tmp_path / "local") == said(there, tmp_path / "spread")
    assert local.history.counts() == spread.history.counts()
    assert all(Path(spread.folder_of(job), "verdicts.json").is_file() for job in jobs)
