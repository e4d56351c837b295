"""Machine code that processes sharing Triton's cache were given -> PG707: does that cache know of the patch?

Decides by kernels of equal source alone: Triton's key holds the source, so no other can be mixed up.
Refuses to know how a process was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from patchgate.checks.codes import verdict_of
from patchgate.checks.judge.cache import PATCHED, PATCHED_WARM, UNPATCHED, UNPATCHED_WARM
from patchgate.model.paths import shown
from patchgate.model.records import Kind, Patch, Verdict
from patchgate.model.serialization import Answer

_verdict = partial(verdict_of, "cache")


def differing(answers: Mapping[str, Answer]) -> list[str]:
    """Sources that are machine code of another kind with the patch, each side having found the cache cold."""
    unpatched, patched = (answers[side]["kernels"] for side in (UNPATCHED, PATCHED))
    return [source for source in unpatched.keys() & patched.keys() if unpatched[source] != patched[source]]


def judge_triton_cache(torch: str, subject: str, patch: Patch, answers: Mapping[str, Answer]) -> list[Verdict]:
    """PG707 for each side that was given a kernel of the other, PG708 when none was."""
    parted = differing(answers)
    stale = [_stale(torch, subject, patch, answers, warm, parted) for warm in (PATCHED_WARM, UNPATCHED_WARM) if parted]
    found = [verdict for verdict in stale if verdict]
    if found:
        return found
    built = answers[PATCHED]["kernels"]
    same = len(built.keys() & answers[UNPATCHED]["kernels"].keys())
    told = f"of {len(built)} kernels {same} have the same source unpatched, and "
    told += "each side ran its own machine code of them" if parted else "the same machine code"
    return [_verdict("PG708", Kind.PASS, torch, subject, "its own machine code on either side", told)]


def _stale(
    torch: str, subject: str, patch: Patch, answers: Mapping[str, Answer], warm: str, parted: list[str]
) -> Verdict | None:
    side, other = (PATCHED, UNPATCHED) if warm == PATCHED_WARM else (UNPATCHED, PATCHED)
    mixed = sum(answers[warm]["kernels"].get(source) == answers[other]["kernels"][source] for source in parted)
    if not mixed:
        return None
    expected = f"{side} machine code, in a Triton cache that was warmed {other}"
    actual = f"{mixed} of {len(parted)} kernels that the patch changes ran as {other}"
    told = f"{subject} {side} after {other}"
    return _verdict("PG707", Kind.REGRESSED, torch, told, expected, actual, shown(patch.path))
