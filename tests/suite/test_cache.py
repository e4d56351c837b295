"""Do torch's caches and Triton's know of the patch? Patched and unpatched processes share a cache directory."""

from patchgate.checks.edits import edited
from patchgate.checks.judge.cache import (
    AGAIN,
    EDITED,
    PATCHED,
    PATCHED_WARM,
    TAGGED,
    UNPATCHED,
    UNPATCHED_WARM,
    is_stale,
    judge_cache,
    judge_failure,
)
from patchgate.checks.judge.triton_cache import differing, judge_triton_cache
from patchgate.checks.requests import STAND_IN


def test_cache(torch, workload, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, "cpu") or shared(torch, workload, patch, trial, tmp_path))


def test_triton_cache(torch, workload, patch, trial, judge, tmp_path):
    judge(trial.doubt(torch, STAND_IN) or built(torch, workload, patch, trial, tmp_path))


def shared(torch, workload, patch, trial, folder):
    """Two directories: one is warmed unpatched, the other patched."""
    subject = f"{workload}.cpu"

    def compiled(cache, path, tag=""):
        return trial.compile_cached(torch, workload, path, folder / cache, tag)

    answers = {
        UNPATCHED: compiled("one", None),
        PATCHED_WARM: compiled("one", patch.path),
        PATCHED: compiled("other", patch.path),
        UNPATCHED_WARM: compiled("other", None),
    }
    failed = judge_failure(torch, subject, answers)
    if failed:
        return [failed]
    if is_stale(answers):
        answers[TAGGED] = compiled("one", patch.path, tag="patchgate")
    elif answers[PATCHED]["code"] != answers[UNPATCHED]["code"]:
        next_version = folder / "edited.py"
        next_version.write_text(edited(patch.source), encoding="utf-8")
        answers[EDITED] = compiled("other", str(next_version))
        answers[AGAIN] = compiled("other", patch.path)
    return judge_cache(torch, subject, patch, answers)


def built(torch, workload, patch, trial, folder):
    """Triton's cache is asked warm only where the patch changes what a kernel of the same source becomes."""
    subject = f"{workload}.{STAND_IN}"

    def kernels(cache, path):
        return trial.built_kernels(torch, workload, path, folder / cache)

    answers = {UNPATCHED: kernels("one", None), PATCHED: kernels("other", patch.path)}
    failed = judge_failure(torch, subject, answers)
    if not failed and differing(answers):
        answers |= {PATCHED_WARM: kernels("one", patch.path), UNPATCHED_WARM: kernels("other", None)}
        failed = judge_failure(torch, subject, answers)
    return [failed] if failed else judge_triton_cache(torch, subject, patch, answers)
