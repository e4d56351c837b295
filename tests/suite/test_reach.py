"""Does anything reach what the patch has put in place, and are the user's own hooks still called?"""

from patchgate.judge.reach import judge_called, judge_holders, judge_hooks
from patchgate.trial import STAND_IN


def test_holders(torch, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or judge_holders(torch, patch, trial.apply(torch, version=torch)))


def test_called(torch, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or called(torch, patch, trial, trial.observed()))


def called(torch, patch, trial, cases):
    observed = [trial.observations(torch, device, workload)[1] for workload, device in cases]
    functions = trial.functions(torch).get("functions", {})
    return judge_called(torch, patch, trial.apply(torch, version=torch), functions, observed)


def test_hooks(torch, patch, trial, judge):
    judge(trial.doubt(torch, "cpu") or judge_hooks(torch, patch, *trial.hooks(torch)))
