"""Do the numbers stay in the class that the patch claims? Runs on the CPU, in one thread."""

from patchgate.judge.parity import judge_failed, judge_numbers
from patchgate.wire import failure_of


def test_parity(torch, workload, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, "cpu") or compared(torch, workload, patch, trial, tmp_path))


def compared(torch, workload, patch, trial, folder):
    files = {side: str(folder / side) for side in ("unpatched", "patched")}
    failures = {
        side: failure_of(trial.run_on_cpu(torch, workload, patch if side == "patched" else None, outputs))
        for side, outputs in files.items()
    }
    answer = {} if any(failures.values()) else trial.differ(torch, **files)
    # Outputs that cannot be compared are the patch's doing: the unpatched ones were written by us.
    unpatched, patched = failures["unpatched"], failures["patched"] or failure_of(answer)
    if unpatched or patched:
        return [judge_failed(torch, f"{workload}.cpu", unpatched, patched)]
    figures = answer["metrics"]
    if figures["differing"]:
        figures |= parted(torch, workload, patch, trial, folder)
    return judge_numbers(torch, patch, trial.workloads[workload], figures)


def parted(torch, workload, patch, trial, folder):
    """The first intermediate that differs; nothing when a side cannot tell."""
    files = {side: str(folder / f"{side}-trace") for side in ("unpatched", "patched")}
    for side, path in files.items():
        trial.run_on_cpu(torch, workload, patch if side == "patched" else None, path, do="trace")
    return trial.differ(torch, **files, do="differ traces").get("metrics", {})
