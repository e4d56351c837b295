"""Do mathematically equal forms of a workload agree with the patch as well as without it? On the CPU."""

from patchgate.judge.consistency import judge_forms
from patchgate.judge.parity import judge_failed
from patchgate.wire import failure_of


def test_consistency(torch, workload, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, "cpu") or compared(torch, workload, patch, trial, tmp_path))


def compared(torch, workload, patch, trial, folder):
    files = {side: str(folder / side) for side in ("unpatched", "patched")}
    failures = {
        side: failure_of(trial.run_on_cpu(torch, workload, patch if side == "patched" else None, outputs, do="forms"))
        for side, outputs in files.items()
    }
    answer = {} if any(failures.values()) else trial.differ(torch, **files, do="differ forms")
    unpatched, patched = failures["unpatched"], failures["patched"] or failure_of(answer)
    if unpatched or patched:
        return [judge_failed(torch, f"{workload}.cpu", unpatched, patched)]
    return judge_forms(torch, patch, f"{workload}.cpu", answer["metrics"])
