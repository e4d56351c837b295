"""Do the numbers stay in the class that the patch claims? Runs on the CPU, in one thread."""

from patchgate.judge.parity import judge_failure, judge_numbers
from patchgate.matrix import load_profile
from patchgate.wire import failure_of


def test_parity(torch, workload, patch, trial, runner, judge, tmp_path):
    files = {side: str(tmp_path / side) for side in ("unpatched", "patched")}
    failures = {
        side: failure_of(trial.run_on_cpu(torch, workload, patch if side == "patched" else None, outputs))
        for side, outputs in files.items()
    }
    if any(failures.values()):
        judge([judge_failure(torch, trial.workloads[workload], failures["unpatched"], failures["patched"])])
        return
    figures = runner.ask(torch, "differ", profile=load_profile("cpu"), **files)["metrics"]
    judge(judge_numbers(torch, patch, trial.workloads[workload], figures))
