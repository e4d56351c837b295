"""Does Triton's cache distinguish patched from unpatched kernels? Two processes that share it build
equal sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from patchgate.checks.cache import (
    PATCHED,
    PATCHED_WARM,
    UNPATCHED,
    UNPATCHED_WARM,
    judge_failure,
    keep_answers,
)
from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Patch,
    Verdict,
    Verdicts,
    display_path,
    read_codes,
    verdict_of,
)

FAMILY = "cache"
CODES = read_codes("""
PG707 Triton's cache hides the patch
    The patch changes the machine code of a kernel, but not its source. With a Triton cache that was
    warmed without the patch, the patched process ran the unpatched machine code; or the other way
    round.
    Why: Users who share a cache run the machine code of the other side: Triton's key contains the
    source of a kernel, its options, the target and Triton's own files, but not what was replaced in
    memory.
    Fix: Add a digest of the patch's text to Triton's key: wrap `hash` of the backend
    (`triton.backends.nvidia.compiler.CUDABackend.hash`), as fixtures/verdicts/PG708-own-key.py
    does; or give the patch a TRITON_CACHE_DIR of its own, if it ran its own machine code here.
PG708 Triton's cache distinguishes both sides
    Kernels that have the same source with and without the patch have the same machine code, or each
    side ran its own next to a cache that the other had warmed.
    Why: Measurements with a warm Triton cache are valid.
    Fix: Nothing to do.
""")
verdict = partial(verdict_of, FAMILY)


@Check(
    axes=("torch", "device", "workload"),
    workloads="cache",
    devices=lambda run: [SIMULATED],
    seconds=2,
    unchanged="none",
)
def ask_triton_cache(context: CheckContext, at: Instance) -> Verdicts:
    answers = keep_answers(context, at.case, "kernels", partial(_build_kernels, context, at.case))
    failed = judge_failure(at.case, answers)
    return [failed] if failed else judge_triton_cache(at.case, context.patch, answers)


def _build_kernels(context: CheckContext, case: Case, folder: Path) -> dict[str, Answer]:
    """Build the kernels of both sides with cold caches. If the patch changes the machine code of
    equal sources, also build them with caches that the other side has warmed.
    """

    def built(cache: str, patch: Patch | None) -> Answer:
        env, workload = {"TRITON_CACHE_DIR": str(folder / cache)}, context.workload(case.workload)
        return context.ask(
            case.torch, "kernels", SIMULATED, workload=workload, patch=patch, env=env
        )

    answers = {UNPATCHED: built("one", None), PATCHED: built("other", context.patch)}
    if not judge_failure(case, answers) and differing_kernels(answers):
        answers |= {PATCHED_WARM: built("one", context.patch), UNPATCHED_WARM: built("other", None)}
    return answers


def differing_kernels(answers: Mapping[str, Answer]) -> list[str]:
    """Sources whose machine code differs with the patch, if each side starts with a cold cache."""
    unpatched, patched = (answers[side]["kernels"] for side in (UNPATCHED, PATCHED))
    return [
        source
        for source in unpatched.keys() & patched.keys()
        if unpatched[source] != patched[source]
    ]


def judge_triton_cache(case: Case, patch: Patch, answers: Mapping[str, Answer]) -> list[Verdict]:
    """PG707 for each side that got a kernel of the other side, PG708 if neither did.

    Triton's key contains the source, so only kernels with equal sources can be confused.
    """
    differing = differing_kernels(answers)
    sides = (PATCHED_WARM, UNPATCHED_WARM) if differing else ()
    stale = [one for warm in sides if (one := _stale(case, patch, answers, warm, differing))]
    if stale:
        return stale
    built = answers[PATCHED]["kernels"]
    same = len(built.keys() & answers[UNPATCHED]["kernels"].keys())
    actual = f"of {len(built)} kernels {same} have the same source unpatched, and "
    actual += "each side ran its own machine code of them" if differing else "the same machine code"
    return [verdict("PG708", Kind.PASS, case, "", "each side runs its own machine code", actual)]


def _stale(
    case: Case, patch: Patch, answers: Mapping[str, Answer], warm: str, differing: list[str]
) -> Verdict | None:
    side, other = (PATCHED, UNPATCHED) if warm == PATCHED_WARM else (UNPATCHED, PATCHED)
    mixed = sum(
        answers[warm]["kernels"].get(source) == answers[other]["kernels"][source]
        for source in differing
    )
    if not mixed:
        return None
    expected = f"{side} machine code, in a Triton cache that was warmed {other}"
    actual = f"{mixed} of {len(differing)} kernels that the patch changes ran as {other}"
    return verdict(
        "PG707",
        Kind.REGRESSED,
        case,
        f"{side} after {other}",
        expected,
        actual,
        display_path(patch.path),
    )
