"""A sweep that is killed twenty times ends as one that was left alone.

What judges is a stand-in, the rest is real.
"""

import os
import random
import signal
import time

import pytest

from patchgate.model.policy import Kind
from patchgate.model.records import Case, Observation, Verdict
from patchgate.runner.cache import Cache
from patchgate.runner.journal import Journal
from patchgate.runner.results_folder import put_aside
from patchgate.runner.run_settings import VERDICTS, Run, load_verdicts, save_run, save_verdicts
from patchgate.runner.torch_environments import Environments
from patchgate.runs import content_key
from patchgate.runs import sweep as module
from patchgate.runs.history.store import History
from patchgate.runs.sweep import Job, Sweep

TORCHES = ("2.12.0", "2.12.1", "2.13.0")
TEMPLATE = Run(folder="", patch="", rows={}, devices=("h200",))


def judge_patch(run, patch, *, workers):
    """Measures two workloads, one after the other, as the gate would: what is cached is not
    measured again.
    """
    (torch,) = run.rows
    put_aside(module.Path(run.folder))
    save_run(run)
    Journal(module.Path(run.folder)).begin(content_key.content_key(run, patch, run.rows))
    shared_cache, verdicts = Cache(module.Path(run.shared_cache)), []
    for workload in ("stack", "chain"):
        key = f"{torch}{workload}"
        time.sleep(0.002)
        case = Case(torch=torch, device="h200", workload=workload)
        found = shared_cache.load(key) or {"loads.max": len(key)}
        shared_cache.save(key, found)
        run.store.save(Observation(case=case, facts=found))
        told = {"check": "kernels", "case": case, "item": case.name, "fact": "loads.max"}
        verdicts.append(
            Verdict(code="PG301", kind=Kind.REGRESSED, actual=module.Path(run.patch).name, **told)
        )
    save_verdicts(module.Path(run.folder), verdicts)
    return load_verdicts(module.Path(run.folder))


@pytest.fixture
def jobs(folder, monkeypatch):
    monkeypatch.setattr(module, "environment_digest", lambda python: python)
    monkeypatch.setattr(content_key, "input_digests", list)
    monkeypatch.setattr(module, "judge_patch", judge_patch)
    for name in "abcd":
        (folder / f"{name}.py").write_text("")
    return [Job(torch=torch, patch=folder / f"{name}.py") for name in "abcd" for torch in TORCHES]


def judge_all(folder, jobs):
    """One life of a sweep: its verdicts, and what its history counts."""
    history = History(folder / "history.sqlite")
    sweep = Sweep(
        folder, Environments(dict.fromkeys(TORCHES, "python")), history, lambda line: None, TEMPLATE
    )
    verdicts = sweep.judge_all(jobs, "night", "2026-01-01")
    counts = history.counts()
    history.close()
    return verdicts, {name: count for name, count in counts.items() if name != "cost"}


def live(folder, jobs):
    """A process that carries out the jobs and ends without returning."""
    pid = os.fork()
    if pid == 0:
        try:
            judge_all(folder, jobs)
        finally:
            os._exit(0)
    return pid


def test_killed_at_twenty_moments_it_says_the_same_and_keeps_nothing_twice(folder, jobs):
    moments = random.Random(7)
    began, whole = time.monotonic(), judge_all(folder / "undisturbed", jobs)
    took, done = time.monotonic() - began, []
    for _ in range(20):
        pid = live(folder / "killed", jobs)
        time.sleep(moments.uniform(0, took / 4))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        done.append(len(list((folder / "killed" / "jobs").glob(f"*/{VERDICTS}"))))
    assert done == sorted(done)
    assert judge_all(folder / "killed", jobs) == whole
    assert judge_all(folder / "killed", jobs) == whole
    names = [
        {path.name for path in (folder / each).rglob("*.json")}
        for each in ("undisturbed", "killed")
    ]
    assert names[0] == names[1]
