"""Do the numbers stay in the class that the patch claims? On the CPU in one thread, and on a real GPU."""

from patchgate.checks.judge.parity import judge_failed, judge_numbers
from patchgate.model.serialization import failure_of


def test_parity(torch, device, workload, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, device) or compared(torch, device, workload, patch, trial, tmp_path))


def compared(torch, device, workload, patch, trial, folder):
    files = {side: str(folder / side) for side in ("unpatched", "patched")}
    failures = {
        side: failure_of(trial.run_on(device, torch, workload, patch if side == "patched" else None, outputs))
        for side, outputs in files.items()
    }
    answer = {} if any(failures.values()) else trial.differ(torch, **files)
    # Outputs that cannot be compared are the patch's doing: the unpatched ones were written by us.
    unpatched, patched = failures["unpatched"], failures["patched"] or failure_of(answer)
    if unpatched or patched:
        return [judge_failed(torch, f"{workload}.{device}", unpatched, patched)]
    figures = answer["metrics"]
    if figures["differing"]:
        figures |= parted(torch, device, workload, patch, trial, folder)
    return judge_numbers(torch, patch, f"{workload}.{device}", figures)


def parted(torch, device, workload, patch, trial, folder):
    """The first intermediate that differs; nothing when a side cannot tell."""
    files = {side: str(folder / f"{side}-trace") for side in ("unpatched", "patched")}
    for side, path in files.items():
        trial.run_on(device, torch, workload, patch if side == "patched" else None, path, do="trace")
    return trial.differ(torch, **files, do="differ traces").get("metrics", {})
