"""Is the workload slower than the budget allows, on a GPU or on the CPU? Timed in pairs, on a GPU alone there."""

from patchgate.checks.judge.latency import judge_timing, judge_untimed
from patchgate.model.records import Failure


def test_latency(torch, device, workload, size, patch, trial, judge):
    judge(trial.doubt(torch, device) or timed(torch, device, workload, size, patch, trial))


def timed(torch, device, workload, size, patch, trial):
    subject = f"{workload}.{device} {size}"
    timing = trial.timing(torch, device, workload, size)
    if isinstance(timing, Failure):
        return [judge_untimed(torch, subject, timing, trial.claim("budgets"))]
    return judge_timing(torch, subject, patch, timing, trial.claim("budgets"))
