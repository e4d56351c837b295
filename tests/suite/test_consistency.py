"""Do equal forms of a workload agree with the patch as well as without it? On the CPU, and on a real GPU."""

from patchgate.checks.judge.consistency import judge_forms
from patchgate.checks.judge.parity import judge_failed
from patchgate.model.serialization import failure_of


def test_consistency(torch, device, workload, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, device) or compared(torch, device, workload, patch, trial, tmp_path))


def compared(torch, device, workload, patch, trial, folder):
    files = {side: str(folder / side) for side in ("unpatched", "patched")}
    sides = {"unpatched": None, "patched": patch}
    failures = {
        side: failure_of(trial.run_on(device, torch, workload, sides[side], outputs, do="forms"))
        for side, outputs in files.items()
    }
    answer = {} if any(failures.values()) else trial.differ(torch, **files, do="differ forms")
    unpatched, patched = failures["unpatched"], failures["patched"] or failure_of(answer)
    if unpatched or patched:
        return [judge_failed(torch, f"{workload}.{device}", unpatched, patched)]
    return judge_forms(torch, patch, f"{workload}.{device}", answer["metrics"])
