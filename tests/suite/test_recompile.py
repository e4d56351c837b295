"""Is a workload compiled more often with the patch: called again, as other instances, with another size?"""

from patchgate.checks.judge.recompiles import judge_recompiles


def test_recompile(torch, workload, patch, trial, judge):
    judge(trial.doubt(torch, "cpu") or recompiled(torch, workload, patch, trial))


def recompiled(torch, workload, patch, trial):
    unpatched, patched = (trial.recompiles(torch, workload, one) for one in (None, patch))
    return list(judge_recompiles(torch, patch, f"{workload}.cpu", unpatched, patched))
