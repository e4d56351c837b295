"""Do two ranks agree with the patch as well as without it, tensor-parallel and sequence-parallel? CPU, and two GPUs."""

from patchgate.checks.judge.consistency import judge_forms
from patchgate.checks.judge.machine import judge_undeviced
from patchgate.checks.judge.parity import judge_failed
from patchgate.model.serialization import failure_of


def test_ranks(torch, device, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, device) or compared(torch, device, patch, trial, tmp_path))


def compared(torch, device, patch, trial, folder):
    files = {side: str(folder / side) for side in ("unpatched", "patched")}
    subject = f"two ranks.{device}"
    before = trial.ranks_on(device, torch, None, files["unpatched"])
    if "unmeasured" in before:
        return [judge_undeviced("parity", torch, subject, before["unmeasured"], "two GPUs")]
    unpatched, patched = failure_of(before), failure_of(trial.ranks_on(device, torch, patch, files["patched"]))
    answer = {} if unpatched or patched else trial.differ(torch, **files, do="differ forms")
    if unpatched or patched or failure_of(answer):
        return [judge_failed(torch, subject, unpatched, patched or failure_of(answer))]
    return judge_forms(torch, patch, subject, answer["metrics"])
