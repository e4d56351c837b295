"""Does compiling cost more than its budget allows? Counted in Python calls, on a simulated GPU.

At night CPU time and instructions are told beside them.
"""

from patchgate.checks.context import STAND_IN
from patchgate.checks.judge.compilework import judge_calls


def test_compile(torch, workload, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or [counted(torch, workload, patch, trial)])


def counted(torch, workload, patch, trial):
    unpatched, patched = (trial.compile_calls(torch, workload, path) for path in (None, patch.path))
    costs = trial.compile_costs(torch, workload) if trial.run.nightly else None
    return judge_calls(torch, f"{workload}.{STAND_IN}", patch, unpatched, patched, costs)
