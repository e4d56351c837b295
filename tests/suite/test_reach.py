"""Does anything reach what the patch has put in place, and are the user's own hooks still called?"""

import tempfile
from pathlib import Path

from patchgate.checks.context import STAND_IN
from patchgate.checks.judge.reach import judge_called, judge_holders, judge_hooks
from patchgate.model.records import Case, Observation
from patchgate.model.serialization import failure_of, ran_of


def test_holders(torch, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or judge_holders(torch, patch, trial.apply(torch, version=torch)))


def test_called(torch, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or called(torch, patch, trial, trial.observed()))


def called(torch, patch, trial, cases):
    observed = [trial.observations(torch, device, workload)[1] for workload, device in cases]
    if trial.has_more_to_cover(torch):
        observed += [with_caches(torch, patch, trial, workload) for workload, _ in cases[:1]]
    functions = trial.functions(torch)
    return judge_called(torch, patch, trial.apply(torch, version=torch), functions, observed)


def with_caches(torch, patch, trial, workload):
    """The lines that run where the caches are on: what a patch does to their key is called there only."""
    case = Case(torch=torch, device="cpu", workload=workload, patch=patch.id)
    with tempfile.TemporaryDirectory() as folder:
        answer = trial.compile_cached(torch, workload, patch.path, Path(folder), tag="")
    return Observation(case=case, failure=failure_of(answer), **ran_of(answer))


def test_hooks(torch, patch, trial, judge):
    judge(trial.doubt(torch, "cpu") or judge_hooks(torch, patch, *trial.hooks(torch)))
