"""Does a small decoder sample other tokens with the patch? On the CPU and on a real GPU, 64 prompts, 64 tokens each."""

from patchgate.checks.judge.parity import judge_failed
from patchgate.checks.judge.tokens import judge_tokens
from patchgate.model.serialization import failure_of


def test_tokens(torch, device, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, device) or sampled(torch, device, patch, trial, tmp_path))


def sampled(torch, device, patch, trial, folder):
    files = {side: str(folder / side) for side in ("unpatched", "patched")}
    failures = {
        side: failure_of(trial.sample_on(device, torch, patch if side == "patched" else None, outputs))
        for side, outputs in files.items()
    }
    answer = {} if any(failures.values()) else trial.differ(torch, **files, do="differ tokens")
    unpatched, patched = failures["unpatched"], failures["patched"] or failure_of(answer)
    if unpatched or patched:
        return [judge_failed(torch, f"decoder.{device}", unpatched, patched)]
    return judge_tokens(torch, patch, device, answer["metrics"])
